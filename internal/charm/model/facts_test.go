package model

import (
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

func TestFactsArePrivateAndWrittenOnlyWhenTheyChange(t *testing.T) {
	r := hosttest.Root(t)
	none, err := Load(r)
	require.NoError(t, err)
	require.Equal(t, Facts{}, none)
	f := Facts{Unit: "worker/0", Config: map[string]any{"http-proxy": "http://u:hunter2@p:1"}, Flights: []Relation{{ID: "flight:7", Own: map[string]string{}, Units: map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222"}}}},
		Resource: "/r.tgz", Proxy: juju.Proxy{HTTP: "http://p"}}
	require.NoError(t, Save(r, none, f))
	st, err := r.Stat(FactsFile)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode())
	back, err := Load(r)
	require.NoError(t, err)
	require.Equal(t, f, back)

	long := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(r.Path(FactsFile), long, long))
	require.NoError(t, Save(r, back, f))
	st, err = r.Stat(FactsFile)
	require.NoError(t, err)
	require.True(t, st.ModTime().Equal(long), "nothing changed, nothing written")
}

func TestErrorOfDamagedFactsNamesTheFile(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, FactsFile, "{")
	_, err := Load(r)
	require.ErrorContains(t, err, "cannot read "+FactsFile)
}

// Facts leave out the unit and the relation that the event removes, although Juju's tools
// still list them.
func TestFactsLeaveOutEndingRelations(t *testing.T) {
	m := jujutest.New("concourse-ci-machine/0")
	m.Config = map[string]any{"mode": "worker"}
	flight := m.Relate(7, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222"}, "web/1": {"tsa-host": "10.0.0.3:2222"}}
	for _, tt := range []struct {
		kind, remote string
		units        []string
	}{
		{"changed", "web/0", []string{"web/0", "web/1"}},
		{"departed", "web/0", []string{"web/1"}},
		{"broken", "", nil},
	} {
		ctx := m.Begin(jujutest.RelationHook(flight, tt.kind, tt.remote))
		f, err := Observe(t.Context(), juju.New(ctx.Runner(nil)), ctx.Event, Facts{Unit: "concourse-ci-machine/0"}, true, time.Time{})
		require.NoError(t, err)
		var units []string
		for _, fl := range f.Flights {
			for u := range fl.Units {
				units = append(units, u)
			}
		}
		require.ElementsMatch(t, tt.units, units, tt.kind)
		require.Empty(t, ctx.Called("resource-get"), "the release is there")
	}
}

// Programs with the address of the status page would start again with each relation.
func TestFactsKeepTheAddressOfAWorkerThatLostItsWeb(t *testing.T) {
	m := jujutest.New("gpu/0")
	m.Config = map[string]any{"mode": "worker"}
	flight := m.Relate(7, "flight", "ci")
	flight.Local = map[string]string{"ingress-address": "10.0.0.11"}
	var last Facts
	for _, kind := range []string{"changed", "broken"} {
		ctx := m.Begin(jujutest.RelationHook(flight, kind, "ci/0"))
		f, err := Observe(t.Context(), juju.New(ctx.Runner(nil)), ctx.Event, last, true, hosttest.Now)
		require.NoError(t, err)
		require.Equal(t, "10.0.0.11", f.Address, kind)
		last = f
	}
	auto, peer := map[string]any{"mode": "auto"}, Relation{Own: map[string]string{"ingress-address": "10.0.0.12"}}
	require.Equal(t, "10.0.0.12", Facts{Config: auto, Peer: &peer, Flights: last.Flights}.ownAddress())
	require.Empty(t, Facts{Config: auto}.ownAddress())
}

// Juju names the own unit as the one that departs when it goes, and in that hook alone.
func TestFactsRememberTheRemovalOfTheUnit(t *testing.T) {
	m := jujutest.New("web/0")
	m.Config = map[string]any{"mode": "worker"}
	flight := m.Relate(7, "flight", "ci")
	flight.Units = map[string]map[string]string{"ci/0": {}}
	last := Facts{Unit: "web/0"}
	for _, step := range []struct {
		kind, departing string
		removed         bool
	}{{"departed", "ci/0", false}, {"departed", "web/0", true}, {"broken", "", true}} {
		e := jujutest.RelationHook(flight, step.kind, "ci/0")
		e.DepartingUnit = step.departing
		ctx := m.Begin(e)
		f, err := Observe(t.Context(), juju.New(ctx.Runner(nil)), ctx.Event, last, true, hosttest.Now)
		require.NoError(t, err)
		require.Equal(t, step.removed, f.Removed, "%+v", step)
		last = f
	}
}

func TestAttachedReleaseIsReadIfItCanHaveChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		event     string
		last      Facts
		installed bool
		asks      bool
	}{
		"first hook":          {"install", Facts{}, false, true},
		"attach-resource":     {"upgrade-charm", Facts{Unit: "w/0"}, true, true},
		"no release came yet": {"update-status", Facts{Unit: "w/0"}, false, true},
		"all is well":         {"update-status", Facts{Unit: "w/0"}, true, false},
		"on the way out":      {"remove", Facts{Unit: "w/0"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := jujutest.New("w/0")
			ctx := m.Begin(jujutest.Hook(tt.event))
			_, err := Observe(t.Context(), juju.New(ctx.Runner(nil)), ctx.Event, tt.last, tt.installed, time.Time{})
			require.NoError(t, err, "that there is none is no error")
			require.Equal(t, tt.asks, len(ctx.Called("resource-get")) == 1)
		})
	}
}

// Keys of no use that a hook before kept are forgotten, and the disk is read again.
func TestInvalidKeysAreNotKept(t *testing.T) {
	private, _ := hosttest.Key("tsa")
	o := observer{last: Facts{Web: &Web{Secret: map[string]string{TSAHostKey: private, SessionKey: "damaged", AdminPassword: "p"}}}}
	var w Web
	require.NoError(t, o.webSecret(t.Context(), &Facts{Leader: true}, &w))
	require.Equal(t, map[string]string{TSAHostKey: private, AdminPassword: "p"}, w.Secret)
}

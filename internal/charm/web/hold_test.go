package web

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// schedulingWeb simulates a web with builds that end after some requests, and records requests.
type schedulingWeb struct {
	looks int // that show a running build
	asked []string

	version string // of the web that answers at the address of a peer
}

func (w *schedulingWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sky/issuer/token":
		out.Write([]byte(`{"access_token":"x"}`))
	case r.URL.Path == "/api/v1/info":
		out.Write([]byte(`{"version":"` + w.version + `"}`))
	case r.URL.Path == "/api/v1/builds":
		if w.looks--; w.looks >= 0 {
			out.Write([]byte(`[{"status":"started"},{"status":"succeeded"}]`))
			return
		}
		out.Write([]byte(`[{"status":"succeeded"}]`))
	default:
		w.asked = append(w.asked, r.Method+" "+r.URL.Path)
	}
}

// upgrading is a running web of 8.2.5 that is to become one of 8.3.0, with a worker.
func upgrading(t *testing.T, web *schedulingWeb) Observed {
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	port, err := strconv.Atoi(server.URL[strings.LastIndexByte(server.URL, ':')+1:])
	require.NoError(t, err)
	o := observedWeb(t, map[string]any{"web-port": port})
	o.Units = map[string]resource.UnitState{concourse.WebUnit: {Active: "active", Sub: "running"}}
	o.Installed, o.InstalledID = "8.2.5", "8.2.5"
	o.Release.Version, o.ReleaseID = "8.3.0", "8.3.0"
	worker := model.Worker{Unit: "gpu/0", Key: "ssh-ed25519 AAAA a", Version: "8.2.5", Drain: 10 * time.Second}
	return withWorkers(o, worker)
}

func TestWebHoldsBuildsBeforeAnotherProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		looks int
		to    string
		asked []string
		err   string
		held  bool
	}{
		"no build runs":           {0, "8.3.0", []string{"PUT /api/v1/components/scheduler/pause"}, "", true},
		"one ends":                {3, "8.3.0", []string{"PUT /api/v1/components/scheduler/pause"}, "", true},
		"one does not end":        {1000, "8.3.0", []string{"PUT /api/v1/components/scheduler/pause"}, "1 running builds are errored: they did not end within 10s", true},
		"a release of its family": {0, "8.2.6", nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			web := &schedulingWeb{looks: c.looks}
			o := upgrading(t, web)
			o.Release.Version, o.ReleaseID = c.to, c.to
			h := hosttest.Quiet(t, hosttest.Root(t))
			require.NoError(t, h.WriteFile(release.Dir+"/"+c.to+"/VERSION", []byte(c.to+"\n"), 0o644))
			p, err := plan.Diff(t.Context(), h, holdBeforeSwitch(o))
			require.NoError(t, err)
			for _, s := range p {
				require.True(t, s.Tolerate, "the upgrade goes on without")
				if err := s.Do(t.Context()); c.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.err)
				}
			}
			require.Equal(t, c.asked, web.asked)
			until, err := heldUntil(h.Root, model.Facts{})
			require.NoError(t, err)
			require.Equal(t, c.held, !until.IsZero())
		})
	}
}

// The web is stopped since run-migrations held builds. The time of the workers begins with
// the switch.
func TestHoldOfAStoppedWebIsRenewed(t *testing.T) {
	o := upgrading(t, &schedulingWeb{})
	o.Units = nil
	h := hosttest.Quiet(t, hosttest.Root(t))
	p, err := plan.Diff(t.Context(), h, holdBeforeSwitch(o))
	require.NoError(t, err)
	require.Empty(t, p, "no builds are held")
	o.HeldUntil = o.Now.Add(-time.Hour)
	require.NoError(t, roletest.Changes(t, h, []plan.Resource{holdBeforeSwitch(o)})[0].Do(t.Context()))
	until, err := heldUntil(h.Root, model.Facts{})
	require.NoError(t, err)
	require.Equal(t, o.Now.Add(2*10*time.Second+followTime).UTC(), until)
}

func TestBuildsStartAgainAfterTheWorkersFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		worker string
		until  time.Duration // from now
		status string
		starts bool
	}{
		"a worker is behind":      {"8.2.5", time.Minute, "for workers that do not run 8.3.0: 1", false},
		"it followed":             {"8.3.0", time.Minute, "", true},
		"it tells no version":     {"", time.Minute, "", true},
		"its time to follow ends": {"8.2.5", 0, "workers that do not run 8.3.0 yet get no work: 1", true},
	} {
		t.Run(name, func(t *testing.T) {
			web := &schedulingWeb{}
			o := upgrading(t, web)
			o.Installed, o.InstalledID = "8.3.0", "8.3.0"
			o.HeldUntil = o.Now.Add(c.until)
			o = withWorkers(o, model.Worker{Unit: "gpu/0", Key: "ssh-ed25519 AAAA a", Version: c.worker})
			h := hosttest.Quiet(t, hosttest.Root(t))
			require.NoError(t, h.WriteFile(HoldFile, holdFile(o.HeldUntil).Data, 0o600))
			var d Desired
			desireHold(&d, o)
			if c.status == "" {
				require.Empty(t, d.Causes)
			} else {
				require.Contains(t, d.Causes[0].Text, c.status)
			}
			p := roletest.Changes(t, h, d.Resources)
			if !c.starts {
				require.Empty(t, p)
				return
			}
			require.NoError(t, p[0].Do(t.Context()))
			require.Equal(t, []string{"PUT /api/v1/components/scheduler/unpause"}, web.asked)
			require.False(t, h.Exists(HoldFile))
		})
	}
}

// Another web on the database that runs the release before would start builds on workers
// that it gives nothing.
func TestBuildsStartAgainWithTheLastWeb(t *testing.T) {
	for name, c := range map[string]struct {
		peer   string
		starts bool
	}{
		"it is behind":                  {"8.2.5", false},
		"it followed":                   {"8.3.0", true},
		"it does not answer as a web":   {"", true},
		"it runs another of its family": {"8.3.1", true},
	} {
		t.Run(name, func(t *testing.T) {
			web := &schedulingWeb{version: c.peer}
			o := upgrading(t, web)
			o.Installed, o.InstalledID, o.HeldUntil = "8.3.0", "8.3.0", o.Now.Add(time.Minute)
			o = withWorkers(o)
			o.Facts.Web.Peers = []string{"127.0.0.1"}
			h := hosttest.Quiet(t, hosttest.Root(t))
			require.NoError(t, h.WriteFile(HoldFile, holdFile(o.HeldUntil).Data, 0o600))
			var d Desired
			desireHold(&d, o)
			err := roletest.Changes(t, h, d.Resources)[0].Do(t.Context())
			if c.starts {
				require.NoError(t, err)
				require.False(t, h.Exists(HoldFile))
				return
			}
			require.EqualError(t, err, "the web at 127.0.0.1 still runs 8.2.5")
			require.Empty(t, web.asked)
			require.True(t, h.Exists(HoldFile))
		})
	}
}

// Builds that a lost unit held are let go by the one that leads in its place.
func TestLeaderTakesOverTheHoldOfBuilds(t *testing.T) {
	at := "2026-01-02T03:19:05Z"
	for name, c := range map[string]struct {
		leader bool
		file   string
		held   bool
	}{
		"the leader knows from the bag": {true, "", true},
		"another web does not":          {false, "", false},
		"its own file wins":             {false, at, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Quiet(t, hosttest.Root(t))
			if c.file != "" {
				require.NoError(t, h.WriteFile(HoldFile, []byte(c.file+"\n"), 0o600))
			}
			until, err := heldUntil(h.Root, model.Facts{Leader: c.leader, Peer: &model.Relation{Remote: map[string]string{HoldKey: at}}})
			require.NoError(t, err)
			require.Equal(t, c.held, !until.IsZero())
		})
	}
	require.Contains(t, roletest.Ops(roletest.Changes(t, withHold(t), RemoveFromWorker(upgrading(t, &schedulingWeb{}).Observed))), HoldFile,
		"a worker holds none")
}

// withHold is a machine with HoldFile.
func withHold(t *testing.T) host.Host {
	h := hosttest.RealAt(hosttest.Root(t))
	require.NoError(t, h.WriteFile(HoldFile, holdFile(hosttest.Now).Data, 0o600))
	return h
}

func TestUnreadableHoldFileHasExpired(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Root(t))
	require.NoError(t, h.WriteFile(HoldFile, []byte("soon"), 0o600))
	until, err := heldUntil(h.Root, model.Facts{})
	require.NoError(t, err)
	require.False(t, until.IsZero(), "so that the hold is taken back")
	require.True(t, until.Before(hosttest.Now))
}

package charm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// leavingWeb is a web that heard of two workers, each with a time to drain.
func leavingWeb(t *testing.T, drain string) (*scaleWeb, *jujutest.Relation) {
	t.Helper()
	w := newScaleWeb(t, "web", 10)
	r := w.model.Relations[slices.IndexFunc(w.model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == "tsa" })]
	w.fill(r, 2)
	for _, bag := range r.Units {
		bag["drain-timeout"] = drain
	}
	w.hook("config-changed")
	w.listed = []string{"worker-0", "worker-1"}
	return w, r
}

const (
	reload = "systemctl reload concourse-server.service"
	kill1  = "ss --no-header --tcp --numeric --kill state established dst 10.1.0.1 sport = :2222"
)

// Juju ends the relation on both sides at once: the worker that this web sees leave has
// its tasks before it.
func TestDepartedWorkerKeepsItsKeyUntilItHasRetired(t *testing.T) {
	w, r := leavingWeb(t, "10m0s")
	got := w.leaves(r, "gpu10/1")
	require.Len(t, w.keys(), 2)
	require.Empty(t, got.commands)
	require.Contains(t, w.model.Status().Message, "gpu10/1 has left and drains until ")
	w.later = 9 * time.Minute
	require.Empty(t, w.hook("update-status").commands, "its task runs still")
	require.True(t, w.linked["10.1.0.1"])

	w.listed = []string{"worker-0"}
	require.Empty(t, w.hook("update-status").commands, "it has to hear by its connection that it has retired")
	require.Len(t, w.keys(), 2)
	delete(w.linked, "10.1.0.1")
	got = w.hook("update-status")
	require.Equal(t, []string{fakeKey(t, 0)}, w.keys())
	require.Contains(t, got.commands, reload)
	require.Contains(t, got.commands, kill1)
	require.NotContains(t, w.model.Status().Message, "has left")
	require.Empty(t, w.hook("update-status").commands, "it is forgotten")
}

func TestDepartedWorkerIsDisconnected(t *testing.T) {
	for name, tt := range map[string]struct {
		drain   string
		listed  []string // nil: the web does not answer
		later   time.Duration
		retired bool
		kept    bool
	}{
		"at once when it has retired before":  {drain: "10m0s", listed: []string{"worker-0"}, retired: true},
		"at once when it may not drain":       {drain: "0s", listed: []string{"worker-0", "worker-1"}},
		"at once when the Python charm's":     {drain: "", listed: []string{"worker-0", "worker-1"}},
		"at once when it asks for too much":   {drain: "25h", listed: []string{"worker-0", "worker-1"}},
		"not yet while its hooks may be late": {drain: "10m0s", listed: []string{"worker-0", "worker-1"}, later: 24 * time.Minute, kept: true},
		"after its time":                      {drain: "10m0s", listed: []string{"worker-0", "worker-1"}, later: 25 * time.Minute},
		"not yet while the web is silent":     {drain: "10m0s", later: 10 * time.Minute, kept: true},
		"after its time with a silent web":    {drain: "10m0s", later: 25 * time.Minute},
		"when the clock was set back":         {drain: "24h0m0s", listed: []string{"worker-0", "worker-1"}, later: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := leavingWeb(t, tt.drain)
			w.listed = tt.listed
			if tt.retired {
				delete(w.linked, "10.1.0.1")
			}
			w.leaves(r, "gpu10/1")
			w.later = tt.later
			w.hook("update-status")
			require.Equal(t, tt.kept, w.linked["10.1.0.1"])
			require.Equal(t, tt.kept, slices.Contains(w.keys(), fakeKey(t, 1)))
			require.Contains(t, w.keys(), fakeKey(t, 0))
		})
	}
}

// The web does not answer, or does not run, in the hook that ends the worker's time.
func TestDepartedWorkerIsRemovedFromTheListOnceTheWebAnswers(t *testing.T) {
	for _, up := range []bool{true, false} {
		w, r := leavingWeb(t, "10m0s")
		w.leaves(r, "gpu10/1")
		w.later, w.listed, w.up["concourse-server.service"] = 25*time.Minute, nil, up
		w.hook("update-status")
		require.Empty(t, w.pruned)
		w.listed = []string{"worker-0", "worker-1"}
		commands := w.hook("update-status").commands
		require.Equal(t, up, !slices.Contains(commands, kill1), "its address may be another worker's by then")
		require.False(t, w.linked["10.1.0.1"])
		require.Equal(t, []string{"worker-1"}, w.pruned)
		w.hook("update-status")
		require.Len(t, w.pruned, 1, "it is forgotten")
	}
}

func TestWorkerThatReturnsWhileDrainingKeepsItsKey(t *testing.T) {
	w, r := leavingWeb(t, "10m0s")
	w.leaves(r, "gpu10/1")
	unit := w.joins(r, 1, fakeKey(t, 1))
	r.Units[unit]["drain-timeout"] = "10m0s"
	w.related(r, "changed", unit)
	w.later = time.Hour
	w.hook("update-status")
	require.Len(t, w.keys(), 2)
	require.True(t, w.linked["10.1.0.1"])
}

// Invalid options do not delay what must end.
func TestWebWithAnInvalidOptionDisconnectsDepartedWorkers(t *testing.T) {
	for option, value := range map[string]any{"log-level": "bogus", "mode": "bogus", "extra-worker-keys": "no key", "worker-drain-timeout": "soon"} {
		t.Run(option, func(t *testing.T) {
			w, r := leavingWeb(t, "10m0s")
			others := "ssh-ed25519 " + strings.Fields(fakeKey(t, 99))[1] + " of-the-operator"
			data, err := w.root.ReadFile(authorizedKeys)
			require.NoError(t, err)
			require.NoError(t, w.root.WriteFile(authorizedKeys, append(data, others+"\n"...), 0o644))
			before := w.model.Config[option]
			w.model.Config[option] = value
			w.hook("config-changed")
			require.Len(t, w.keys(), 3, "nothing else is done")

			require.Empty(t, w.leaves(r, "gpu10/1").commands)
			require.Equal(t, "blocked", w.model.Status().Status)
			require.Len(t, w.keys(), 3, "it drains")
			w.listed = []string{"worker-0"}
			delete(w.linked, "10.1.0.1")
			got := w.hook("update-status")
			require.Equal(t, []string{reload, kill1}, slices.DeleteFunc(got.commands, func(c string) bool { return c != reload && c != kill1 }))
			require.ElementsMatch(t, []string{fakeKey(t, 0), others}, w.keys())
			require.Equal(t, "blocked", w.model.Status().Status)
			require.Contains(t, w.model.Status().Message, option+": ")
			require.Empty(t, w.hook("update-status").commands)

			w.model.Config[option] = before
			if before == nil {
				delete(w.model.Config, option)
			}
			w.hook("config-changed")
			require.ElementsMatch(t, []string{fakeKey(t, 0), others}, w.keys())
		})
	}
}

func TestWebWithAnInvalidOptionStopsWithoutItsDatabase(t *testing.T) {
	w, _ := leavingWeb(t, "10m0s")
	w.model.Config["log-level"] = "bogus"
	w.hook("config-changed")
	require.True(t, w.up["concourse-server.service"])
	i := slices.IndexFunc(w.model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == "postgresql" })
	w.related(w.model.Relations[i], "broken", "")
	require.False(t, w.up["concourse-server.service"])
}

func TestWorkerPublishesItsDrainTimeout(t *testing.T) {
	bag := map[string]string{"drain-timeout": "1h30m0s"}
	require.True(t, maps.Equal(bag, relation.DrainDatabag(90*time.Minute)))
	d, problems := relation.ParseDrain(bag, 24*time.Hour)
	require.Empty(t, problems)
	require.Equal(t, 90*time.Minute, d)
	_, problems = relation.ParseDrain(map[string]string{"drain-timeout": "-1s\n"}, 24*time.Hour)
	require.Equal(t, []string{`drain-timeout: "-1s" is not a time between 0s and 24h0m0s`}, problems)
}

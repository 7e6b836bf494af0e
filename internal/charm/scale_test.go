package charm

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

const manyWorkers = 300

var reloaded = []string{"systemctl reload " + concourse.WebUnit}

// D16: a worker that comes costs its web two hooks of the same size, however
// many were there before, and no restart.
func TestD16CostOfAHookDoesNotDependOnTheNumberOfWorkers(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	want := map[string]map[string]int{}
	same := func(name string, got ran) {
		t.Helper()
		if want[name] == nil {
			want[name] = got.tools()
		}
		require.Equal(t, want[name], got.tools(), name)
	}
	for _, n := range []int{1, 10, 100, manyWorkers} {
		if n > 1 {
			w.fill(tsa, n-1)
		}
		unit := w.joins(tsa, n-1, "")
		got := w.related(tsa, "joined", unit)
		require.Equal(t, []string{unit}, got.read(tsa))
		require.Empty(t, got.commands, "without a key there is nothing to reload")
		same("joined", got)

		w.joins(tsa, n-1, fakeKey(t, n-1))
		got = w.related(tsa, "changed", unit)
		require.Equal(t, []string{unit}, got.read(tsa))
		require.Equal(t, reloaded, got.commands)
		require.Len(t, w.keys(), n)
		same("changed", got)

		same("changed without news", w.quiet(func() ran { return w.related(tsa, "changed", unit) }))
		got = w.quiet(func() ran { return w.hook("update-status") })
		require.Empty(t, got.read(tsa))
		same("update-status", got)
	}
	got := w.quiet(func() ran { return w.hook("config-changed") })
	require.Len(t, got.read(tsa), manyWorkers, "a resync reads them all")
}

// quiet is a hook that must not run or write anything.
func (w *scaleWeb) quiet(run func() ran) ran {
	w.t.Helper()
	long := time.Unix(1, 0)
	files := []string{model.FactsFile, authorizedKeys}
	for _, path := range files {
		require.NoError(w.t, os.Chtimes(w.root.Path(path), long, long))
	}
	got := run()
	require.Empty(w.t, got.commands)
	for _, path := range files {
		st, err := w.root.Stat(path)
		require.NoError(w.t, err)
		require.True(w.t, st.ModTime().Equal(long), path)
	}
	return got
}

// D19: exactly the key of the worker that left goes, and its connections end.
func TestD19DepartedWorkerLosesItsKeyAndConnectionsOnce(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	w.fill(tsa, manyWorkers)
	before := w.keys()
	got := w.leaves(tsa, "gpu7/137")
	require.Empty(t, got.read(tsa))
	require.Equal(t, []string{reloaded[0], concourse.CutOff(workerAddress(137)).String()}, got.commands)
	require.Equal(t, slices.DeleteFunc(before, func(k string) bool { return k == fakeKey(t, 137) }), w.keys())
	w.quiet(func() ran { return w.hook("update-status") })

	t.Run("and gets in again when it comes back", func(t *testing.T) {
		w.joins(tsa, 137, fakeKey(t, 137))
		require.Equal(t, reloaded, w.related(tsa, "changed", "gpu7/137").commands)
		require.Contains(t, w.keys(), fakeKey(t, 137))
	})
	t.Run("and so does one whose key changed", func(t *testing.T) {
		w.joins(tsa, 5, fakeKey(t, 1005))
		got := w.related(tsa, "changed", "gpu7/5")
		require.Equal(t, []string{reloaded[0], concourse.CutOff(workerAddress(5)).String()}, got.commands)
		require.Contains(t, w.keys(), fakeKey(t, 1005))
		require.NotContains(t, w.keys(), fakeKey(t, 5))
		require.Len(t, w.keys(), manyWorkers)
	})
}

func TestAllWorkersOfAnEndedRelationAreDisconnected(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	w.fill(w.model.Relations[2], 4)
	got := w.related(w.model.Relations[2], "broken", "")
	require.Empty(t, w.keys())
	want := slices.Clone(reloaded)
	for i := range 4 {
		want = append(want, concourse.CutOff(workerAddress(i)).String())
	}
	require.Equal(t, want, got.commands)
}

// The facts of workers can be wrong if an operator skipped a hook or restored a file. A resync
// reads all workers again.
func TestConfigChangedCorrectsTheFactsOfWorkers(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	w.fill(tsa, manyWorkers)
	right := w.keys()
	f, err := model.Load(w.root)
	require.NoError(t, err)
	workers := f.Web.Workers
	wrong := workers["tsa:7 gpu7/3"]
	wrong.Key = fakeKey(t, 2003)
	workers["tsa:7 gpu7/3"] = wrong
	workers["tsa:7 gpu7/9999"] = model.Worker{Unit: "gpu7/9999", Key: fakeKey(t, 9999), Address: workerAddress(9999)}
	delete(workers, "tsa:7 gpu7/4")
	w.linked[workerAddress(9999)] = true
	data, err := json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, w.root.WriteFile(model.FactsFile, data, 0o600))

	got := w.hook("update-status")
	require.Equal(t, []string{"gpu7/4"}, got.read(tsa), "one that nothing is known of is read at once")
	require.NotContains(t, w.keys(), fakeKey(t, 9999), "and one that is not related has no key")
	require.Contains(t, w.keys(), fakeKey(t, 2003))
	require.Equal(t, []string{reloaded[0], concourse.CutOff(workerAddress(9999)).String()}, got.commands)

	got = w.hook("config-changed")
	require.Len(t, got.read(tsa), manyWorkers)
	require.Equal(t, right, w.keys())
	w.quiet(func() ran { return w.hook("config-changed") })
}

func TestFailedHookKeepsTheWorkersItRead(t *testing.T) {
	refuse := func(what string) func(*scaleWeb) func() {
		return func(w *scaleWeb) func() {
			w.refuse = what
			return func() { w.refuse = "" }
		}
	}
	block := func(path string) func(*scaleWeb) func() { // a file in a folder's place, or the other way round
		return func(w *scaleWeb) func() {
			at := w.root.Path(path)
			st, err := os.Stat(at)
			require.NoError(w.t, err)
			require.NoError(w.t, os.Rename(at, at+".away"))
			if st.IsDir() {
				require.NoError(w.t, os.WriteFile(at, nil, 0o600))
			} else {
				require.NoError(w.t, os.Mkdir(at, 0o700))
			}
			return func() {
				require.NoError(w.t, os.Remove(at))
				require.NoError(w.t, os.Rename(at+".away", at))
			}
		}
	}
	for name, breaks := range map[string]func(*scaleWeb) (mend func()){
		"before anything was kept":     refuse("relation-ids --format=json certificates"),
		"before the keys were written": block("/var/lib/concourse/keys"),
		"after the work was done":      block(versionFile),
	} {
		t.Run(name, func(t *testing.T) {
			w := newScaleWeb(t, "web", 7)
			tsa := w.model.Relations[2]
			w.fill(tsa, 20)
			unit := w.joins(tsa, 20, fakeKey(t, 20))
			mend := breaks(w)
			require.Error(t, w.try(jujutest.RelationHook(tsa, "changed", unit)).err)
			mend()
			w.related(tsa, "changed", unit)
			require.Contains(t, w.keys(), fakeKey(t, 20))
			require.Len(t, w.keys(), 21)

			mend = breaks(w)
			delete(tsa.Units, "gpu7/3")
			first := w.try(jujutest.RelationHook(tsa, "departed", "gpu7/3"))
			require.Error(t, first.err)
			mend()
			second := w.related(tsa, "departed", "gpu7/3")
			require.NotContains(t, w.keys(), fakeKey(t, 3))
			require.Len(t, w.keys(), 20)
			commands := append(first.commands, second.commands...)
			require.Equal(t, []string{reloaded[0], concourse.CutOff(workerAddress(3)).String()}, slices.Compact(commands),
				"who left in a hook that failed is cut off all the same, by the last hook that tried")
			w.quiet(func() ran { return w.hook("update-status") })
		})
	}
}

// A web that does not reload still trusts who left: cutting its connections
// helps only when it is tried again after the reload.
func TestD19WorkerIsDisconnectedAfterTheReload(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	w.fill(tsa, 3)
	w.refuse = "systemctl reload"
	delete(tsa.Units, "gpu7/1")
	w.try(jujutest.RelationHook(tsa, "departed", "gpu7/1"))
	w.refuse, w.linked[workerAddress(1)] = "", true // it is back, as the web let it in
	require.Equal(t, []string{reloaded[0], concourse.CutOff(workerAddress(1)).String()}, w.hook("update-status").commands)
	w.quiet(func() ran { return w.hook("update-status") })
}

func TestWorkersOfSeveralRelationsAndPeersAtOnce(t *testing.T) {
	w := newScaleWeb(t, "auto", 7, 8)
	peer, one, two := w.model.Relations[0], w.model.Relations[2], w.model.Relations[3]
	for i := range 3 {
		w.joins(one, i, fakeKey(t, i))
		w.joins(two, 10+i, fakeKey(t, 10+i))
		w.joins(peer, 20+i, fakeKey(t, 20+i))
	}
	shared := w.joins(two, 30, fakeKey(t, 0)) // the same machine's key once more
	w.hook("config-changed")
	require.Len(t, w.keys(), 9)

	for _, r := range []*jujutest.Relation{one, two, peer} {
		unit := w.joins(r, 40+r.ID, fakeKey(t, 40+r.ID))
		got := w.related(r, "changed", unit)
		for _, other := range []*jujutest.Relation{one, two, peer} {
			if other == r {
				require.Equal(t, []string{unit}, got.read(other))
			} else {
				require.Empty(t, got.read(other), other.Name())
			}
		}
		require.Equal(t, reloaded, got.commands)
		require.Contains(t, w.keys(), fakeKey(t, 40+r.ID))
	}
	require.Len(t, w.keys(), 12)

	got := w.leaves(two, shared)
	require.Empty(t, got.commands, "its key is still another's")
	require.Contains(t, w.keys(), fakeKey(t, 0))
	got = w.leaves(peer, "concourse/21")
	require.Equal(t, []string{reloaded[0], concourse.CutOff(workerAddress(21)).String()}, got.commands)
	require.Len(t, w.keys(), 11)

	// With mode=web the other units of the application are webs themselves.
	w.model.Config["mode"] = "web"
	w.hook("config-changed")
	require.Len(t, w.keys(), 8)
}

// The data of a worker becomes a line of the file that grants access.
func TestInvalidDataOfWorkersIsNamedAndNeverWritten(t *testing.T) {
	private := "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0IGJ5dGVz\n-----END OPENSSH PRIVATE KEY-----\n"
	for name, key := range map[string]string{
		"two lines":              fakeKey(t, 1000) + "\n" + fakeKey(t, 1001),
		"options":                `command="id" ` + fakeKey(t, 1000),
		"a private key":          private,
		"one in a single line":   strings.ReplaceAll(private, "\n", ""),
		"another file's content": "root:x:0:0:root:/root:/bin/bash",
		"a comment":              "# " + fakeKey(t, 1000),
	} {
		t.Run(name, func(t *testing.T) {
			w := newScaleWeb(t, "web", 7)
			tsa := w.model.Relations[2]
			w.fill(tsa, 3)
			before := w.keys()
			bad := w.joins(tsa, 3, "")
			tsa.Units[bad]["worker-public-key"] = key
			require.Empty(t, w.related(tsa, "changed", bad).commands)
			require.Equal(t, before, w.keys())
			status := w.model.Status()
			require.Equal(t, "active", status.Status, "the others work")
			require.Contains(t, status.Message, bad+" can't register: worker-public-key: ")
			facts, err := w.root.ReadText(model.FactsFile)
			require.NoError(t, err)
			require.NotContains(t, facts+status.Message, "c2VjcmV0IGJ5dGVz")

			// The worker is listed until it publishes a key.
			w.hook("update-status")
			require.Contains(t, w.model.Status().Message, bad)
			w.joins(tsa, 3, fakeKey(t, 3))
			require.Equal(t, reloaded, w.related(tsa, "changed", bad).commands)
			require.NotContains(t, w.model.Status().Message, bad)
			require.Len(t, w.keys(), 4)
		})
	}
}

func TestStatusNamesAFewOfManyWorkersThatCannotRegister(t *testing.T) {
	w := newScaleWeb(t, "web", 7)
	tsa := w.model.Relations[2]
	for i := range manyWorkers {
		tsa.Units[w.joins(tsa, i, "")]["worker-public-key"] = "garbage"
	}
	w.hook("config-changed")
	message := w.model.Status().Message
	require.LessOrEqual(t, utf8.RuneCountInString(message), status.Limit)
	require.Contains(t, message, fmt.Sprintf("; and %d more: juju run ", manyWorkers-1))
	require.Empty(t, w.keys())
}

// A machine that lost its power in a bad moment needs no operator for this.
func TestHookReplacesDamagedFacts(t *testing.T) {
	for _, text := range []string{"", "{", `{"web":{"workers":[]}}`, "\x00\x00\x00\x00"} {
		w := newScaleWeb(t, "web", 7)
		tsa := w.model.Relations[2]
		w.fill(tsa, 20)
		keys, secret := w.keys(), w.model.Secrets[1].Revisions
		require.NoError(t, w.root.WriteFile(model.FactsFile, []byte(text), 0o600))
		got := w.hook("update-status")
		require.Len(t, got.read(tsa), 20, "of what is not known all is read")
		require.Empty(t, got.commands)
		require.Equal(t, keys, w.keys())
		require.Equal(t, secret, w.model.Secrets[1].Revisions)
		w.quiet(func() ran { return w.hook("config-changed") })
	}
}

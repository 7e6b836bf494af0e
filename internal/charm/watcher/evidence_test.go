package watcher

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// workerOf answers as a worker for ended containers of tasks.
func workerOf(t *testing.T, u *Unit, exits map[string]string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		container, property, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/containers/"), "/properties/")
		answer, known := exits[container]
		if !known || property != "garden.process-exit-status" {
			http.Error(w, `{"Type":"ContainerNotFoundError"}`, http.StatusNotFound)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	u.WorkerURL = s.URL
}

func evidence(t *testing.T, u *Unit, f term.Format) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, u.Evidence(&b, f))
	return b.String()
}

// From leases, sysfs and the worker's answer to the evidence and the wrapper's file.
func TestEvidenceNamesTheTaskWithAFault(t *testing.T) {
	u := leaseUnit(t, leasing())
	watchedBy(t, u)
	workerOf(t, u, map[string]string{"4f1c": `{"value":"134"}`, "77aa": `{"value":"much"}`})
	require.Equal(t, "no task of this unit had a GPU fault\n", evidence(t, u, term.Format{}))
	require.Equal(t, "[]\n", evidence(t, u, term.Format{JSON: true}))

	watched(t, u)
	for pid, container := range map[int]string{4711: "4f1c", 4712: "77aa"} {
		runs(t, u.Host.Root, fmt.Sprint(pid))
		taken(t, u, container, pid, 5*time.Second, lease.Want{Count: 1, Of: []int{pid - 4710}})
	}
	look := func() string { u.after(15 * time.Second); return watched(t, u) }
	require.Empty(t, look())
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 1\nce: 0\n")
	require.Equal(t, "GPU 1 (0000:43:00.0): quarantined: 1 uncorrectable error\n", look())
	for _, pid := range []string{"4711", "4712"} {
		require.NoError(t, os.RemoveAll(u.Host.Path("/proc/"+pid)))
	}
	require.Empty(t, look(), "ended, and answerable a while longer")
	look()
	require.Equal(t, "container 4f1c: infrastructure: a task cannot cause 1 uncorrectable error\n", look()+look())

	st, err := u.Host.Stat(quarantine.EvidenceFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())
	hosttest.Golden(t, "testdata/evidence.golden", evidence(t, u, term.Format{}))
	require.Contains(t, evidence(t, u, term.Format{JSON: true}), `"verdict": "infrastructure"`)

	hosttest.Put(t, u.Host.Root, quarantine.EvidenceFile, "{")
	require.ErrorContains(t, u.Evidence(&bytes.Buffer{}, term.Format{}), "remove the file, it is begun again")
}

// A task with several GPUs may have a fault on one of them.
func TestEvidenceShowsEachGPUOfTheTask(t *testing.T) {
	var b bytes.Buffer
	fault := []health.Fault{{Kind: health.UncorrectableErrors, Value: 2}}
	showEvidence(&b, quarantine.Evidence{Run: quarantine.Run{Container: "4f1c", Began: hosttest.Now, Verdict: "infrastructure", Reason: "x",
		GPUs: []quarantine.Use{{Ref: quarantine.Ref{Index: 0, Name: "a"}, NewFaults: fault, MemoryBefore: new(1024.)},
			{Ref: quarantine.Ref{Index: 1, Name: "b"}, Before: fault}}}})
	require.Equal(t, "container 4f1c from 2026-01-02 03:04:05 UTC\n  verdict: infrastructure: x\n"+
		"  GPU 0 (a): 2 uncorrectable errors\n  GPU 1 (b): nothing new\n    before: 2 uncorrectable errors\n", b.String())
}

// The wrapper requires this memory before it leases the GPU again.
func TestWrapperGetsTheIdleMemoryOfAGPU(t *testing.T) {
	u := leaseUnit(t, leasing())
	watchedBy(t, u)
	watched(t, u)
	const used = "/sys/bus/pci/devices/0000:43:00.0/mem_info_vram_used"
	require.Contains(t, quarantinedNow(t, u.Host.Root), `{"name":"0000:43:00.0","files":["`+used+`"],"most":`)
	file := quarantinedNow(t, u.Host.Root)
	text, err := u.Host.ReadText(used)
	require.NoError(t, err)
	hosttest.Put(t, u.Host.Root, used, text+"\n")
	u.after(15 * time.Second)
	watched(t, u)
	require.Equal(t, file, quarantinedNow(t, u.Host.Root))
}

func TestLookWorksWithoutTheWorker(t *testing.T) {
	u := leaseUnit(t, leasing())
	for container, answer := range map[string]string{"a": `{"value":"x"}`, "b": `{`, "c": ``, "d": strings.Repeat(" ", 1<<17) + `{"value":"1"}`} {
		workerOf(t, u, map[string]string{container: answer})
		_, err := u.fetchExit(t.Context(), container)
		require.Error(t, err, container)
	}
	_, err := u.fetchExit(t.Context(), "../unknown")
	require.EqualError(t, err, "no exit status: the worker answers 404")
	u.WorkerURL = ""
	_, err = u.fetchExit(t.Context(), "a")
	require.ErrorContains(t, err, "not CHARM_ROOT's")
}

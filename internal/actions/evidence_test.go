package actions

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

	"concourse-ci-machine/internal/gpuservice"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/lease"
	"concourse-ci-machine/internal/term"
)

// workerOf answers as a worker does about containers of tasks that have ended.
func workerOf(t *testing.T, c *Actions, exits map[string]string) {
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
	c.WorkerURL = s.URL
}

func evidence(t *testing.T, c *Actions, f term.Format) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, c.GPUEvidence(&b, f))
	return b.String()
}

// From leases, sysfs and the worker's answer to what a person reads, and to what the
// wrapper goes by.
func TestTaskThatMeetsAFaultIsNamed(t *testing.T) {
	c := leaseUnit(t, leasing())
	watchedBy(t, c)
	workerOf(t, c, map[string]string{"4f1c": `{"value":"134"}`, "77aa": `{"value":"much"}`})
	require.Equal(t, "no task of this unit has met a fault of a GPU\n", evidence(t, c, term.Format{}))
	require.Equal(t, "[]\n", evidence(t, c, term.Format{JSON: true}))

	watched(t, c)
	for pid, container := range map[int]string{4711: "4f1c", 4712: "77aa"} {
		runs(t, c.Host.Root, fmt.Sprint(pid))
		taken(t, c, container, pid, 5*time.Second, lease.Want{Count: 1, Of: []int{pid - 4710}})
	}
	look := func() string { c.after(15 * time.Second); return watched(t, c) }
	require.Empty(t, look())
	hosttest.Put(t, c.Host.Root, ueFile, "ue: 1\nce: 0\n")
	require.Equal(t, "GPU 1 (0000:43:00.0): withheld: 1 uncorrectable error\n", look())
	for _, pid := range []string{"4711", "4712"} {
		require.NoError(t, os.RemoveAll(c.Host.Path("/proc/"+pid)))
	}
	require.Empty(t, look(), "ended, and answerable a while longer")
	look()
	require.Equal(t, "container 4f1c: infrastructure: no task brings this about: 1 uncorrectable error\n", look()+look())

	st, err := c.Host.Stat(gpuservice.EvidenceFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())
	hosttest.Golden(t, "testdata/evidence.golden", evidence(t, c, term.Format{}))
	require.Contains(t, evidence(t, c, term.Format{JSON: true}), `"verdict": "infrastructure"`)

	hosttest.Put(t, c.Host.Root, gpuservice.EvidenceFile, "{")
	require.ErrorContains(t, c.GPUEvidence(&bytes.Buffer{}, term.Format{}), "remove the file, it is begun anew")
}

// What the wrapper has to find in the GPU's memory before it gives it on.
func TestWrapperIsToldHowMuchMemoryAGPUHasInUseAtRest(t *testing.T) {
	c := leaseUnit(t, leasing())
	watchedBy(t, c)
	watched(t, c)
	const used = "/sys/bus/pci/devices/0000:43:00.0/mem_info_vram_used"
	require.Contains(t, withheldNow(t, c.Host.Root), `{"name":"0000:43:00.0","file":"`+used+`","most":`)
	file := withheldNow(t, c.Host.Root)
	text, err := c.Host.ReadText(used)
	require.NoError(t, err)
	hosttest.Put(t, c.Host.Root, used, text+"\n")
	c.after(15 * time.Second)
	watched(t, c)
	require.Equal(t, file, withheldNow(t, c.Host.Root))
}

func TestWorkerThatDoesNotTellIsNoBar(t *testing.T) {
	c := leaseUnit(t, leasing())
	for container, answer := range map[string]string{"a": `{"value":"x"}`, "b": `{`, "c": ``, "d": strings.Repeat(" ", 1<<17) + `{"value":"1"}`} {
		workerOf(t, c, map[string]string{container: answer})
		_, err := c.exitOf(t.Context(), container)
		require.Error(t, err, container)
	}
	_, err := c.exitOf(t.Context(), "../unknown")
	require.EqualError(t, err, "the worker answers 404")
	c.WorkerURL = ""
	_, err = c.exitOf(t.Context(), "a")
	require.ErrorContains(t, err, "not CHARM_ROOT's")
}

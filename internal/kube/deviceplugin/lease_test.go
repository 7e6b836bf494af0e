package deviceplugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestGPUOfATaskIsNotListed(t *testing.T) {
	p, _, w, log := unit(t)
	end := taskTakes(t, p, 0)
	turn(t, p)
	require.Equal(t, map[string]string{gpu1: v1beta1.Healthy}, <-w.lists)
	require.Contains(t, log.String(), "GPU 0 ("+gpu0+") is not offered: held by the task of container task-1\n")
	end()
	turn(t, p)
	require.Len(t, <-w.lists, 2)
	require.Contains(t, log.String(), "GPU 0 ("+gpu0+") is available to pods\n")
}

func TestGPUThatTasksDoNotGetIsUnhealthy(t *testing.T) {
	const reason = "has been quarantined since 2026-01-02 03:04:05 UTC by hand: a fan"
	p, _, w, log := unit(t)
	keep(t, p.root, gpu1, reason)
	turn(t, p)
	require.Equal(t, map[string]string{gpu0: v1beta1.Healthy, gpu1: v1beta1.Unhealthy}, <-w.lists)
	require.Contains(t, log.String(), "GPU 1 ("+gpu1+") is Unhealthy: it "+reason+"\n")
	_, err := w.allocate(gpu1)
	require.ErrorContains(t, err, reason)
	require.Equal(t, []string{"", ""}, holders(t, p))
	hosttest.Put(t, p.root, "/admission.json", "{")
	turn(t, p)
	require.Contains(t, p.Trouble(), "cannot read which GPUs are quarantined")
	require.NoError(t, p.root.Remove("/admission.json"))
	turn(t, p)
	require.Equal(t, v1beta1.Healthy, (<-w.lists)[gpu1])
}

func TestPodHoldsItsGPUFromAllocateToItsEnd(t *testing.T) {
	p, k, w, _ := unit(t)
	_, err := w.allocate(gpu0)
	require.NoError(t, err)
	require.Equal(t, []string{lease.StartingPod, ""}, holders(t, p))
	turn(t, p)
	require.Equal(t, []string{lease.StartingPod, ""}, holders(t, p), "the kubelet does not list it yet")
	k.pods = []*podresources.PodResources{pod("ci", "train", "main", "amd.com/gpu", gpu0)}
	turn(t, p)
	require.Equal(t, []string{"ci/train/main", ""}, holders(t, p))
	require.NoError(t, w.begin(gpu0))
	require.Equal(t, []string{"ci/train/main", ""}, holders(t, p), "a start changes no name")
	require.Empty(t, w.lists, "what pods have stays listed")
	k.pods = nil
	turn(t, p)
	require.Equal(t, []string{"", ""}, holders(t, p))
}

func TestGPUOfATaskIsRefused(t *testing.T) {
	p, k, w, _ := unit(t)
	taskTakes(t, p, 1)
	_, err := w.allocate(gpu0, gpu1)
	require.ErrorContains(t, err, "task-1")
	require.Equal(t, []string{"", "task-1"}, holders(t, p), "all or none")
	require.ErrorContains(t, w.begin(gpu1), "task-1", "a pod that had it before a reboot waits")
	k.pods = []*podresources.PodResources{pod("ci", "train", "main", "amd.com/gpu", gpu1)}
	turn(t, p)
	require.Contains(t, p.Trouble(), "task-1", "who has it twice is told")
	require.Equal(t, []string{"", "task-1"}, holders(t, p))
}

func TestLeasesOfPodsOutliveTheKubelet(t *testing.T) {
	p, k, w, log := unit(t)
	k.pods = []*podresources.PodResources{pod("ci", "train", "main", "amd.com/gpu", gpu0, gpu1)}
	turn(t, p)
	k.stop()
	for range w.lists { // until the stream has ended
	}
	require.Eventually(t, func() bool { // until the plugin has seen it, too
		turn(t, p)
		return strings.Contains(p.Trouble(), "cannot register amd.com/gpu")
	}, time.Minute, time.Millisecond)
	require.Equal(t, []string{"ci/train/main", "ci/train/main"}, holders(t, p))
	require.Contains(t, log.String(), "no lease of a pod ends")

	k.start()
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
	require.Len(t, <-(<-k.plugins).lists, 2)
	require.Equal(t, []string{"ci/train/main", "ci/train/main"}, holders(t, p))
}

// notes are what the kubelet has allocated, as it writes them.
func (k *kubelet) notes(at time.Time, container, resource string, answer *v1beta1.ContainerAllocateResponse, ids ...string) {
	resp, err := proto.Marshal(answer)
	require.NoError(k.t, err)
	entries := []map[string]any{}
	if len(ids) > 0 {
		entries = append(entries, map[string]any{"PodUID": "8d1e", "ContainerName": container, "ResourceName": resource, "DeviceIDs": map[string][]string{"-1": ids}, "AllocResp": resp})
	}
	data, err := json.Marshal(map[string]any{"Data": map[string]any{"PodDeviceEntries": entries, "RegisteredDevices": map[string]any{}}, "Checksum": 1})
	require.NoError(k.t, err)
	file := filepath.Join(k.dir, "device-plugins", notesFile)
	require.NoError(k.t, os.WriteFile(file, data, 0o600))
	require.NoError(k.t, os.Chtimes(file, at, at))
}

// The kubelet lists no GPU of an init container that runs before the others.
func TestInitContainerHoldsItsGPU(t *testing.T) {
	p, k, w, _ := unit(t)
	clock := time.Now()
	p.now = func() time.Time { return clock }
	turn(t, p)
	answer, err := w.allocate(gpu0)
	require.NoError(t, err)
	k.notes(clock, "init", "amd.com/gpu", answer.ContainerResponses[0], gpu0)
	turn(t, p)
	clock = clock.Add(2 * listDelay)
	turn(t, p)
	require.Equal(t, lease.StartingPod, holders(t, p)[0], "notes older than the kubelet's list say nothing")
	require.Len(t, <-w.lists, 2, "the same again, so that it writes them")
	k.notes(clock, "init", "amd.com/gpu", answer.ContainerResponses[0], gpu0)
	clock = clock.Add(time.Second)
	turn(t, p)
	require.Equal(t, lease.StartingPod, holders(t, p)[0])
	require.Empty(t, w.lists, "not each second")
	clock = clock.Add(2 * askAgain)
	turn(t, p)
	require.Len(t, <-w.lists, 2)
	k.notes(clock, "", "", nil)
	turn(t, p)
	require.Empty(t, holders(t, p)[0])
}

// The kernel stamps files with its last tick, so notes that the kubelet writes at once look
// older than the request.
func TestNotesOfTheSameTickAreNew(t *testing.T) {
	p, k, w, _ := unit(t)
	clock := time.Now()
	p.now = func() time.Time { return clock }
	turn(t, p)
	answer, err := w.allocate(gpu0)
	require.NoError(t, err)
	k.notes(clock, "main", "amd.com/gpu", answer.ContainerResponses[0], gpu0)
	turn(t, p)
	clock = clock.Add(2 * listDelay)
	turn(t, p)
	require.Equal(t, lease.StartingPod, holders(t, p)[0])
	k.notes(clock.Add(-4*time.Millisecond), "", "", nil)
	turn(t, p)
	require.Empty(t, holders(t, p)[0])
}

// The clock that the lease was recorded by was an hour ahead.
func TestGPUOfAMissingPodIsReleasedThoughTheClockWasSetBack(t *testing.T) {
	p, k, w, _ := unit(t)
	set := time.Now()
	clock := set.Add(time.Hour)
	p.now = func() time.Time { return clock }
	turn(t, p)
	_, err := w.allocate(gpu0)
	require.NoError(t, err)
	clock = set
	turn(t, p)
	require.Equal(t, lease.StartingPod, holders(t, p)[0])
	clock = clock.Add(listDelay)
	turn(t, p)
	k.notes(clock, "", "", nil)
	turn(t, p)
	require.Empty(t, holders(t, p)[0])
}

// A reboot can give a GPU another node, and the kubelet keeps the plugin's answer.
func TestContainerDoesNotStartWithAnotherGPUsNode(t *testing.T) {
	_, k, w, _ := unit(t)
	answer, err := w.allocate(gpu0)
	require.NoError(t, err)
	k.notes(time.Now(), "main", "amd.com/gpu", answer.ContainerResponses[0], gpu0)
	require.NoError(t, w.begin(gpu0))
	other, err := w.allocate(gpu1)
	require.NoError(t, err)
	k.notes(time.Now(), "main", "amd.com/gpu", other.ContainerResponses[0], gpu0)
	require.ErrorContains(t, w.begin(gpu0), "cannot start a container with /dev/dri/renderD129")
}

func TestSharedGPUsAreNotLeased(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	p, k, _ := started(t, r, nil)
	k.start()
	turn(t, p)
	w := <-k.plugins
	require.Len(t, <-w.lists, 2)
	_, err := w.allocate(gpu0)
	require.NoError(t, err)
	require.NoError(t, w.begin(gpu0))
	require.False(t, r.Exists(lease.DefaultDir))
	quarantineGPU(t, r, gpu0)
	turn(t, p)
	require.Equal(t, v1beta1.Unhealthy, (<-w.lists)[gpu0])
	_, err = w.allocate(gpu0)
	require.ErrorContains(t, err, "GPU 0 ("+gpu0+") has been quarantined since")
	require.NoError(t, w.begin(gpu0), "what runs with it goes on")
}

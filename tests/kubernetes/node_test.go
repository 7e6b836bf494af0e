//go:build kubernetes

package kubernetes

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Debian's containerd 1.6 knows no CDI devices of the kubelet's: pods get device nodes.
func TestPodsOnANodeWithDeviceNodes(t *testing.T) {
	need(t)
	kubelet := newCluster(t, "containerd")
	plugin := startPlugin(t)
	t.Run("the page's pod runs", runsThePage)
	t.Run("a pod opens its GPUs only", opensItsOwn)
	t.Run("a pod of another user opens its GPU by its group", func(t *testing.T) { opensAs(t, "runAsUser: 1000, runAsGroup: 1000, supplementalGroups: [0]") })
	t.Run("a pod that finds too few waits", waits)
	t.Run("a quarantined GPU leaves and comes back", quarantinedGPU)
	t.Run("without the cluster's credentials a pod only lacks its Event", func(t *testing.T) { lacksCredentials(t, plugin) })
	t.Run("pods get GPUs that are joined best", joinedBest)
	t.Run("kubelet starts again", func(t *testing.T) { kubeletStartsAgain(t, kubelet, plugin) })
	t.Run("plugin is killed", func(t *testing.T) { pluginIsKilled(t, plugin) })
	t.Run("a task has a GPU", taskHasOne)
	t.Run("a pod has a GPU", podHasOne)
	t.Run("a container has a GPU", containerAndPod)
	t.Run("GitHub's runner has a GPU", githubsRunner)
	t.Run("GitLab's job has a GPU", gitlabsJob)
	t.Run("pods share a GPU", func(t *testing.T) { sharedGPU(t, plugin) })
}

// containerd 2.1 puts devices into containers by their names.
func TestPodsOnANodeWithCDI(t *testing.T) {
	need(t)
	newCluster(t, program("containerd", "containerd"))
	startPlugin(t, "--devices=cdi")
	t.Run("a pod opens its GPUs only", opensItsOwn)
	t.Run("a pod of another user opens its GPU", func(t *testing.T) { opensAs(t, "runAsUser: 1000, runAsGroup: 1000") })
	t.Run("a pod has a GPU", podHasOne)
}

func opensItsOwn(t *testing.T) {
	unit(t, 2)
	pod(t, "none", 0)
	require.Equal(t, []string{}, opened(t, "none"), "who asks for no GPU has none")
	running(t, "first", 0)
	running(t, "second", 1)
}

// opensAs runs a pod with a securityContext. The machine's nodes are open to root and its
// group alone.
func opensAs(t *testing.T, context string) {
	unit(t, 2)
	t.Cleanup(func() { end(t, "another") })
	apply(t, "{apiVersion: v1, kind: Pod, metadata: {name: another}, spec: {securityContext: {"+context+"}, "+
		"containers: [{name: work, image: busybox, resources: {limits: {amd.com/gpu: 1}}}]}}")
	require.Equal(t, nodes(0), opened(t, "another"))
}

const insufficient = "Insufficient " + resource

// pending waits until the scheduler has said that no node has enough GPUs.
func pending(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" waits", func() (string, bool) {
		said := events(t, name)
		return said, strings.Contains(said, insufficient)
	})
	require.Equal(t, "Pending", statusOf(t, name).Phase)
}

func waits(t *testing.T) {
	unit(t, 1)
	running(t, "first", 0)
	pod(t, "second", 1)
	pending(t, "second")
	end(t, "first")
	require.Equal(t, nodes(0), opened(t, "second"))
}

// lacksCredentials runs a pod with a GPU that is quarantined. The plugin logs once why the pod has
// no Event, and writes it when the credentials are back. A restarted plugin writes no second one.
func lacksCredentials(t *testing.T, plugin *part) {
	unit(t, gpus)
	require.NoError(t, os.Rename(kubeletConf, kubeletConf+".away"))
	back := sync.OnceFunc(func() { require.NoError(t, os.Rename(kubeletConf+".away", kubeletConf)) })
	t.Cleanup(back)
	running(t, "blind", 0)
	dispatch(t, "gpu", "quarantine", "0", "its fan is loud")
	offers(t, gpus-1)
	const why = "cannot find the kubelet's credentials: none of " + kubeletConf
	log := func() string {
		text, err := os.ReadFile(plugin.log())
		require.NoError(t, err)
		return string(text)
	}
	eventually(t, "the plugin logs why", func() (string, bool) { return log(), strings.Contains(log(), why) })
	pod(t, "other", 1)
	require.Len(t, opened(t, "other"), 2)
	require.NotContains(t, events(t, "blind"), "GPUQuarantined")
	back()
	hasEvidence(t, "blind")
	eventually(t, "the plugin logs the recovery", func() (string, bool) { return log(), strings.Contains(log(), "events: recovered\n") })
	require.Equal(t, 1, strings.Count(log(), why), log())
	plugin.stop(t, syscall.SIGTERM)
	offers(t, 0)
	plugin.start(t)
	offers(t, gpus-1)
	hasEvidence(t, "blind")
	dispatch(t, "gpu", "return", "0")
	offers(t, gpus)
}

// hasEvidence waits until a pod has one Event of its quarantined GPU. kubectl describe finds it by
// the UID.
func hasEvidence(t *testing.T, name string) {
	t.Helper()
	var of struct{ Metadata struct{ UID string } }
	get(t, pods+"/"+name, &of)
	eventually(t, "the pod has an Event", func() (string, bool) {
		_, answer, err := call(http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=reason=GPUQuarantined,type=Warning,involvedObject.uid="+of.Metadata.UID, "")
		return fmt.Sprint(answer, err, events(t, name)), strings.Count(answer, `"reason":"GPUQuarantined"`) == 1 && strings.Contains(answer, "its fan is loud")
	})
}

// quarantinedGPU also checks the status of the pod that has the GPU, and its Event. The kubelet names
// the resource in the status, the GPU's address and its health.
func quarantinedGPU(t *testing.T) {
	unit(t, 2)
	running(t, "mine", 0)
	health := func(want string) {
		eventually(t, "the status of the pod has "+want, func() (string, bool) {
			_, answer, err := call(http.MethodGet, pods+"/mine", "")
			return fmt.Sprint(answer, err), strings.Contains(answer, `"allocatedResourcesStatus":[{"name":"amd.com/gpu","resources":[{"resourceID":"`+
				addressOf(t, 0)+`","health":"`+want+`"`)
		})
	}
	health("Healthy")
	dispatch(t, "gpu", "quarantine", "0", "its fan is loud")
	offers(t, 1)
	require.Equal(t, "2", node(t).Capacity[resource], "it is there, and Unhealthy")
	health("Unhealthy")
	hasEvidence(t, "mine")
	require.Equal(t, "Running", statusOf(t, "mine").Phase)
	end(t, "mine")
	running(t, "other", 1)
	pod(t, "waiting", 1)
	pending(t, "waiting")
	dispatch(t, "gpu", "return", "0")
	require.Equal(t, nodes(0), opened(t, "waiting"))
}

// See linked: 0 and 2 are one hop apart, and so are 1 and 3.
func joinedBest(t *testing.T) {
	unit(t, gpus)
	running(t, "first", 0, 2)
	running(t, "second", 1, 3)
}

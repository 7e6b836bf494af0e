//go:build kubernetes

package kubernetes

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// quarantineIsATaint: a pod that had the GPU runs on and finds the evidence; no other gets it.
func quarantineIsATaint(t *testing.T) {
	claimable(t, 1)
	for _, name := range []string{"running", "waiting"} {
		claim(t, name, request(""), "")
	}
	claimingPod(t, "running", "running")
	require.Equal(t, nodes(0), opened(t, "running"))
	dispatch(t, "gpu", "quarantine", "0", "its fan is loud")
	offersClaims(t, 0)
	taints := devicesNow(t)[0].Taints
	require.Len(t, taints, 1)
	require.NotEmpty(t, taints[0].TimeAdded)
	require.Equal(t, []string{"gpu.amd.com/quarantined", "by_hand", "NoSchedule"}, []string{taints[0].Key, taints[0].Value, taints[0].Effect})
	eventually(t, "the pod has an Event", func() (string, bool) {
		said := events(t, "running")
		return said, strings.Contains(said, "GPUQuarantined: GPU 0 (") && strings.Contains(said, "its fan is loud")
	})
	eventually(t, "the pod's status has the health of its GPU", func() (string, bool) {
		_, answer, err := call(http.MethodGet, pods+"/running", "")
		return fmt.Sprint(answer, err), strings.Contains(answer, `"health":"Unhealthy"`) && strings.Contains(answer, "its fan is loud")
	})
	require.Equal(t, "Running", statusOf(t, "running").Phase)
	end(t, "running")
	claimingPod(t, "waiting", "waiting")
	unschedulable(t, "waiting")
	dispatch(t, "gpu", "return", "0")
	require.Equal(t, nodes(0), opened(t, "waiting"))
}

// taskHasClaimable: a GPU that a task leases has a taint until the task ends.
func taskHasClaimable(t *testing.T) {
	claimable(t, 1)
	endTask, err := task(t, "task", "AMD_VISIBLE_DEVICES=0")
	require.NoError(t, err)
	offersClaims(t, 0)
	require.Equal(t, "gpu.amd.com/leased", devicesNow(t)[0].Taints[0].Key)
	claim(t, "waiting", request(""), "")
	claimingPod(t, "waiting", "waiting")
	unschedulable(t, "waiting")
	endTask()
	require.Equal(t, nodes(0), opened(t, "waiting"))
}

func evicts(t *testing.T) {
	driver := parts["gpu-dra-driver"]
	driver.stop(t, syscall.SIGTERM)
	driver.argv = append(driver.argv, "--evict")
	driver.start(t)
	claimable(t, 2)
	claim(t, "leaves", request(byAddress(t, 0)), "")
	claim(t, "stays", request(byAddress(t, 1)), "")
	claimingPod(t, "leaves", "leaves")
	claimingPod(t, "stays", "stays")
	require.Equal(t, nodes(0), opened(t, "leaves"))
	require.Equal(t, nodes(1), opened(t, "stays"))
	dispatch(t, "gpu", "quarantine", "0", "its fan is loud")
	eventually(t, "the pod is evicted", func() (string, bool) {
		status, answer, err := call(http.MethodGet, pods+"/leaves", "")
		return fmt.Sprint(answer, err), status == http.StatusNotFound
	})
	claimedBy(t, 0, "")
	claimedBy(t, 1, "stays")
	require.Equal(t, "Running", statusOf(t, "stays").Phase)
	dispatch(t, "gpu", "return", "0")
	offersClaims(t, 2)
}

// refusesOtherNodes: with the account of the manifest, the driver of one node has no word in
// another's slices.
func refusesOtherNodes(t *testing.T) {
	file, err := os.ReadFile(dir + "/cluster/kubeconfig-dra")
	require.NoError(t, err)
	token := regexp.MustCompile(`token: ([^}]+)`).FindSubmatch(file)[1]
	slice := func(node string) string {
		return "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: forged}, spec: {driver: gpu.amd.com, nodeName: " + node +
			", pool: {name: " + node + ", generation: 1, resourceSliceCount: 1}, devices: [{name: gpu}]}}"
	}
	as := func(method, path, body string) (int, string) {
		r, err := http.NewRequest(method, "https://"+apiAddress+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+string(token))
		r.Header.Set("Content-Type", "application/yaml")
		a, err := client.Do(r)
		require.NoError(t, err)
		defer a.Body.Close()
		data, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		return a.StatusCode, string(data)
	}
	status, answer := as(http.MethodPost, "/apis/resource.k8s.io/v1/resourceslices", slice("other"))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	require.Contains(t, answer, "the driver may change the slices of its own node only")
	status, answer = as(http.MethodGet, "/api/v1/namespaces/kube-system/secrets", "")
	require.Equal(t, http.StatusForbidden, status, answer)
}

var claimBlock = regexp.MustCompile("(?s)---\n(apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n.*?)```")

// claimOfThePage runs the claim of the page as it is written there.
func claimOfThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	block := claimBlock.FindSubmatch(text)
	require.NotNil(t, block, "a claim of %s", page)
	claimable(t, 2)
	objects := strings.Split(string(block[1]), "---\n")
	require.Len(t, objects, 2)
	const templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
	post(t, templates, objects[0])
	t.Cleanup(func() {
		_, answer, err := call(http.MethodDelete, templates+"/big-gpu", "")
		require.NoError(t, err, answer)
	})
	t.Cleanup(func() { end(t, "gpu-claim") })
	apply(t, objects[1])
	require.Len(t, opened(t, "gpu-claim"), 2)
}

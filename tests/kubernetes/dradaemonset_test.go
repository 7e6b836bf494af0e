//go:build kubernetes

package kubernetes

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// The pod of the DaemonSet leases and sees quarantines as the service does. Its account's token
// comes by a file, because no controller here gives pods one.
func TestDaemonSetOffersGPUsToClaims(t *testing.T) {
	need(t)
	newCluster(t, program("containerd", "containerd"))
	startControllers(t, "daemonset-controller")
	applyManifest(t, func(kind string) bool { return kind != "DaemonSet" })
	configure(t, 2)
	out, err := runIn(dir, "ctr", "--namespace", "k8s.io", "images", "import", nodeArchive)
	require.NoError(t, err, out)
	set := ""
	for object := range strings.SplitSeq(draManifest(t), "\n---\n") {
		if strings.Contains(object, "\nkind: DaemonSet\n") {
			set = strings.Replace(object, "- /gpu-dra-driver\n", "- /gpu-dra-driver\n            - --kubeconfig="+credentials(t)+"\n", 1)
		}
	}
	folders := map[string]string{"sys": "/sys", "proc": "/proc", "cluster": filepath.Join(dir, "cluster")}
	t.Cleanup(func() {
		for _, path := range []string{daemonSets + "/concourse-gpu-dra", systemPods + "?gracePeriodSeconds=1"} {
			_, answer, err := call(http.MethodDelete, path, "")
			require.NoError(t, err, answer)
		}
		eventually(t, "the pods of the DaemonSet end", func() (string, bool) {
			pods, answer := systemPodsNow(t)
			return answer, len(pods) == 0
		})
	})
	post(t, daemonSets, onHost(t, set, folders))

	offersClaims(t, 2)
	claim(t, "mine", request(""), "")
	claimingPod(t, "mine", "mine")
	require.Equal(t, nodes(0), opened(t, "mine"))
	claimedBy(t, 0, "mine")
	dispatch(t, "gpu", "quarantine", "1", "its fan is loud")
	offersClaims(t, 1)
	dispatch(t, "gpu", "return", "1")
	offersClaims(t, 2)
	end(t, "mine")
	claimedBy(t, 0, "")
}

// onHost returns a DaemonSet with folders and the network of the node.
func onHost(t *testing.T, text string, folders map[string]string) string {
	t.Helper()
	var set map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &set))
	spec := set["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	container := spec["containers"].([]any)[0].(map[string]any)
	for name, path := range folders {
		spec["volumes"] = append(spec["volumes"].([]any), map[string]any{"name": name, "hostPath": map[string]any{"path": path}})
		container["volumeMounts"] = append(container["volumeMounts"].([]any), map[string]any{"name": name, "mountPath": path})
	}
	spec["hostNetwork"] = true
	data, err := yaml.Marshal(set)
	require.NoError(t, err)
	return string(data)
}

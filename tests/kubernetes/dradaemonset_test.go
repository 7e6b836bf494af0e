//go:build kubernetes

package kubernetes

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	text, err := os.ReadFile(draManifest)
	require.NoError(t, err)
	at := strings.LastIndex(string(text), "---\n")
	set := strings.Replace(string(text[at+4:]), "command: [/gpu-dra-driver]", "command: [/gpu-dra-driver, --kubeconfig="+credentials(t)+"]", 1)
	folders := map[string]string{"sys": "/sys", "proc": "/proc", "cluster": filepath.Join(dir, "cluster")}
	t.Cleanup(func() { removeDaemonSet(t, "concourse-gpu-dra") })
	status, answer, err := call(http.MethodPost, daemonSets, withFolders(t, []byte(set), folders, map[string]any{"hostNetwork": true}))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, answer)

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

//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The driver takes the device plugin's place while a pod runs, and the plugin the driver's, as the
// services of a unit do. The pods of both keep their GPUs, and neither gives them away. The pod has
// a claim: for minutes a kubelet looks for the plugin's GPUs in pods with limits. The driver has the
// kubelet's credentials, and the cluster only the page's class.
func TestDriverAndPluginReplaceEachOther(t *testing.T) {
	need(t)
	newCluster(t, program("containerd", "containerd"))
	startControllers(t)
	plugin := startPlugin(t, "--devices=cdi")
	unit(t, 2)
	insist(t, "before", 1)
	require.Equal(t, nodes(0), opened(t, "before"))
	held(t, 0, "default/before/work")
	plugin.stop(t, syscall.SIGTERM)
	offers(t, 0)
	createClassOfThePage(t)
	driver := newPart(t, "gpu-dra-driver", filepath.Join(dir, "gpu-dra-driver"))
	offersClaims(t, 1)
	require.Equal(t, "gpu.amd.com/leased", devicesNow(t)[0].Taints[0].Key)
	claim(t, "claim", request(""), "")
	claimingPod(t, "claiming", "claim")
	require.Equal(t, nodes(1), opened(t, "claiming"))
	end(t, "before")
	offersClaims(t, 2)

	driver.stop(t, syscall.SIGTERM)
	slicesAreDeleted(t) // or the scheduler gives a pod a claim for which there is no driver
	plugin.start(t)
	offers(t, 1)
	insist(t, "after", 1)
	require.Equal(t, nodes(0), opened(t, "after"))
	driver.start(t) // without it the kubelet cannot end a pod with a claim
	end(t, "claiming")
	driver.stop(t, syscall.SIGTERM)
	offers(t, 2)
	end(t, "after")
	held(t, 0, "") // or the lease outlives the plugin of this test
}

// slicesAreDeleted waits for the kubelet, which deletes the slices 30 seconds after the driver ended.
func slicesAreDeleted(t *testing.T) {
	t.Helper()
	eventually(t, "the slices are deleted", func() (string, bool) {
		now := devicesNow(t)
		return fmt.Sprint(now), len(now) == 0
	})
}

var classBlock = regexp.MustCompile("(?s)```yaml\n(apiVersion: resource.k8s.io/v1\nkind: DeviceClass\n.*?)---")

func createClassOfThePage(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	block := classBlock.FindSubmatch(text)
	require.NotNil(t, block, "a DeviceClass of %s", page)
	createClass(t, string(block[1]))
}

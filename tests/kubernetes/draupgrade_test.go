//go:build kubernetes

package kubernetes

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The driver takes the device plugin's place while a pod runs, and the plugin the driver's. The
// pods of both keep their GPUs, and neither gives them away. The pod has a claim: for minutes a
// kubelet looks for the plugin's GPUs in pods with limits.
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
	applyManifest(t, func(kind string) bool { return kind != "DaemonSet" })
	driver := startDriver(t, 1)
	require.Equal(t, "gpu.amd.com/leased", devicesNow(t)[0].Taints[0].Key)
	claim(t, "claim", request(""), "")
	claimingPod(t, "claiming", "claim")
	require.Equal(t, nodes(1), opened(t, "claiming"))
	end(t, "before")
	offersClaims(t, 2)

	driver.stop(t, syscall.SIGTERM)
	plugin.start(t)
	offers(t, 1)
	insist(t, "after", 1)
	require.Equal(t, nodes(0), opened(t, "after"))
	driver.start(t) // without it the kubelet cannot end a pod with a claim
	end(t, "claiming")
	driver.stop(t, syscall.SIGTERM)
	offers(t, 2)
}

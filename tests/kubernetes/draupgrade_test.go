//go:build kubernetes

package kubernetes

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The driver takes the device plugin's place while a pod runs, and the plugin the driver's. The
// pods of both keep their GPUs, and neither gives them away.
func TestDriverAndPluginReplaceEachOther(t *testing.T) {
	need(t)
	newCluster(t, program("containerd", "containerd"))
	startControllers(t)
	plugin := startPlugin(t, "--devices=cdi")
	unit(t, 2)
	running(t, "before", 0)
	held(t, 0, "default/before/work")
	plugin.stop(t, syscall.SIGTERM)
	offers(t, 0)
	applyManifest(t, func(kind string) bool { return kind != "DaemonSet" })
	driver := startDriver(t, 1)
	require.Equal(t, "gpu.amd.com/leased", devicesNow(t)[0].Taints[0].Key)
	pod(t, "old-manifest", 1)
	require.Equal(t, nodes(1), opened(t, "old-manifest"))
	end(t, "before")
	offersClaims(t, 2)

	driver.stop(t, syscall.SIGTERM)
	plugin.start(t)
	offers(t, 1)
	running(t, "after", 0)
	driver.start(t) // without it the kubelet cannot end a pod with a claim
	end(t, "old-manifest")
	driver.stop(t, syscall.SIGTERM)
	offers(t, 2)
}

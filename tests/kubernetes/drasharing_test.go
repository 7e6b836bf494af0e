//go:build kubernetes

package kubernetes

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// restarted starts the driver again with more flags, and without them after the test.
func restarted(t *testing.T, flags ...string) *part {
	t.Helper()
	driver := parts["gpu-dra-driver"]
	before := driver.argv
	driver.stop(t, syscall.SIGTERM)
	t.Cleanup(func() {
		driver.stop(t, syscall.SIGTERM)
		driver.argv = before
		driver.start(t)
	})
	driver.argv = append(append([]string{}, before...), flags...)
	driver.start(t)
	return driver
}

const sharedRequest = "{name: gpu, exactly: {deviceClassName: shared.gpu.amd.com}}"

// claimsShareGPU: three claims have one GPU at the same time, also over a kill of the driver.
// Claims and limits of the other class never get it, and tasks are refused.
func claimsShareGPU(t *testing.T) {
	claimable(t, 2)
	claim(t, "alone", request(byAddress(t, 0)), "")
	claimingPod(t, "alone", "alone")
	require.Equal(t, nodes(0), opened(t, "alone"))
	for object := range strings.SplitSeq(draManifest(t, "--set=dra.replicas=3"), "\n---\n") {
		if strings.Contains(object, "name: shared.gpu.amd.com") {
			post(t, "/apis/resource.k8s.io/v1/deviceclasses", object)
		}
	}
	driver := restarted(t, "--replicas=3", "--shared-gpus=0")
	offersClaims(t, 1) // one claim still has GPU 0 alone
	require.Equal(t, "claim", devicesNow(t)[0].Taints[0].Value)
	end(t, "alone")
	offersClaims(t, 2)

	for _, name := range []string{"first", "second"} {
		claim(t, name, sharedRequest, "")
		claimingPod(t, name, name)
		require.Equal(t, nodes(0), opened(t, name))
	}
	driver.stop(t, syscall.SIGKILL)
	driver.start(t)
	t.Cleanup(func() { end(t, "limits") })
	apply(t, "{apiVersion: v1, kind: Pod, metadata: {name: limits}, spec: {containers: [{name: work, image: busybox, "+
		"resources: {limits: {"+sharedResource+": 1}}}]}}")
	require.Equal(t, nodes(0), opened(t, "limits"))
	held(t, 0, lease.SharingClaims)
	for _, name := range []string{"first", "second", "limits"} {
		require.Equal(t, "Running", statusOf(t, name).Phase)
	}
	require.Contains(t, dispatch(t, "gpu", "status"), lease.SharingClaims)
	_, err := task(t, "refused", "AMD_VISIBLE_DEVICES=0")
	require.ErrorContains(t, err, "is held by "+lease.SharingClaims)
	claim(t, "fourth", sharedRequest, "")
	claimingPod(t, "fourth", "fourth")
	unschedulable(t, "fourth")
	pod(t, "other", 1)
	require.Equal(t, nodes(1), opened(t, "other"), "who asks for a GPU alone")
	end(t, "other")

	dispatch(t, "gpu", "quarantine", "0", "its fan is loud")
	offersClaims(t, 1)
	for _, name := range []string{"first", "second", "limits"} {
		eventually(t, "pod "+name+" has an Event", func() (string, bool) {
			said := events(t, name)
			return said, strings.Contains(said, "GPUQuarantined: GPU 0 (")
		})
	}
	end(t, "first")
	dispatch(t, "gpu", "return", "0")
	require.Equal(t, nodes(0), opened(t, "fourth"))
	for _, name := range []string{"second", "limits", "fourth"} {
		held(t, 0, lease.SharingClaims)
		end(t, name)
	}
	held(t, 0, "")
	offersClaims(t, 2)
}

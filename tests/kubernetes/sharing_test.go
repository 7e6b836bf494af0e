//go:build kubernetes

package kubernetes

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

const sharedResource = resource + ".shared"

// plugged replaces the plugin by one with these flags.
func plugged(t *testing.T, name string, flags ...string) *part {
	t.Helper()
	return newPart(t, name, append([]string{filepath.Join(dir, "gpu-device-plugin")}, flags...)...)
}

// offersBoth waits until the node can allocate so many GPUs to pods alone, and so many
// replicas.
func offersBoth(t *testing.T, alone, replicas string) {
	t.Helper()
	eventually(t, "GPUs are offered: "+alone+" and "+replicas, func() (string, bool) {
		now := node(t).Allocatable
		return fmt.Sprint(now), now[resource] == alone && now[sharedResource] == replicas
	})
}

// sharing makes a pod that requests so many shared GPUs. It ends with the test.
func sharing(t *testing.T, name string, gpus int) {
	t.Helper()
	t.Cleanup(func() { end(t, name) })
	apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: work, image: busybox, "+
		"resources: {limits: {%s: %d}}}]}}", name, sharedResource, gpus))
}

// sharedGPU: several pods have one GPU at the same time, and who wants one alone has to wait
// for them. Without the option all is as before.
func sharedGPU(t *testing.T, plugin *part) {
	unit(t, 2)
	running(t, "alone", 0)
	plugin.stop(t, syscall.SIGTERM)
	t.Cleanup(func() { plugin.start(t) })
	shares := plugged(t, "plugin-shares", "--replicas=4", "--shared-gpus=0")
	offersBoth(t, "1", "0") // a pod still has GPU 0 alone
	end(t, "alone")
	offersBoth(t, "1", "4")

	for _, name := range []string{"first", "second"} {
		sharing(t, name, 1)
		require.Equal(t, nodes(0), opened(t, name))
	}
	sharing(t, "two", 2)
	eventually(t, "one GPU is not given twice", func() (string, bool) {
		s := statusOf(t, "two")
		return fmt.Sprint(s), s.Reason == "UnexpectedAdmissionError"
	})
	end(t, "two")
	sharing(t, "third", 1)
	require.Equal(t, nodes(0), opened(t, "third"))
	held(t, 0, lease.SharingPods)
	_, err := task(t, "refused", "AMD_VISIBLE_DEVICES=0")
	require.ErrorContains(t, err, "is held by "+lease.SharingPods)
	require.Contains(t, dispatch(t, "gpu", "status"), lease.SharingPods)
	running(t, "alone", 1)
	pod(t, "waiting", 1)
	pending(t, "waiting")
	dispatch(t, "gpu", "quarantine", "0", "its fan is loud")
	offersBoth(t, "1", "0")
	dispatch(t, "gpu", "return", "0")
	offersBoth(t, "1", "4")
	sharing(t, "fourth", 1)
	require.Equal(t, nodes(0), opened(t, "fourth"))
	sharing(t, "fifth", 1)
	eventually(t, "the fifth waits", func() (string, bool) {
		said := events(t, "fifth")
		return said, strings.Contains(said, "Insufficient "+sharedResource)
	})

	registered := timesRegistered(t, shares)
	shares.stop(t, syscall.SIGKILL)
	shares.start(t)
	eventually(t, "the plugin registers both again", func() (string, bool) {
		return "", timesRegistered(t, shares) == registered+2
	})
	offersBoth(t, "1", "4")
	held(t, 0, lease.SharingPods)
	end(t, "first")
	require.Equal(t, nodes(0), opened(t, "fifth"))
	for _, name := range []string{"second", "third", "fourth"} {
		end(t, name)
	}
	held(t, 0, lease.SharingPods)

	shares.stop(t, syscall.SIGTERM)
	off := plugged(t, "plugin-shares-no-more")
	offers(t, 1) // the fifth still shares GPU 0
	end(t, "fifth")
	require.Equal(t, nodes(0), opened(t, "waiting"))
	end(t, "waiting")
	offers(t, 2)
	off.stop(t, syscall.SIGTERM)
}

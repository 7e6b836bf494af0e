package charm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/testutil/hosttest"
)

func TestKubernetesIsCheckedByWhatThePluginTells(t *testing.T) {
	const unknown = "concourse-gpu-device-plugin.service is failed; see journalctl --unit concourse-gpu-device-plugin"
	for said, want := range map[string]string{
		"ActiveState=active\nStatusText=the kubelet knows the GPUs\nStatusErrno=0\n":              "",
		"ActiveState=active\nStatusText=cannot register amd.com/gpu at x: a=b\nStatusErrno=107\n": "cannot register amd.com/gpu at x: a=b; without Kubernetes here set kubernetes=off",
		"ActiveState=failed\nStatusText=\nStatusErrno=0\n":                                        unknown,
	} {
		run := hosttest.NewRunner(t)
		run.Answer("systemctl show", said)
		c := &Charm{Host: host.Host{Runner: run}}
		require.Equal(t, want, c.CheckKubernetes(context.Background()))
	}
}

package wellknown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine without Juju names no command of Juju.
func TestRemediesNameTheProgramThatRuns(t *testing.T) {
	remedies := func() []string {
		return []string{RunAction("gpu/0", "accept-gpus"), SetOption("gpu", "rocm-version=7.2"), OnUnit("gpu/0", "df -h"),
			ResetOption("gpu", "version"), ShowStatus("gpu/0"), ShowStatus(""),
			ReleaseGPU("gpu/0", "0"), GiveRelease()}
	}
	require.Equal(t, []string{"juju run gpu/0 accept-gpus", "juju config gpu rocm-version=7.2", "juju ssh gpu/0 df -h",
		"juju config gpu --reset version", "juju status gpu/0", "juju status",
		"juju run gpu/0 release-gpu gpu=0 force=true", "juju attach-resource <application> concourse-release=<tarball>"},
		remedies())
	Command = MachineProgram
	t.Cleanup(func() { Command = Dispatch })
	require.Equal(t, []string{"sudo concourse-ci-machine accept-gpus", "sudo concourse-ci-machine set rocm-version=7.2",
		"df -h", "sudo concourse-ci-machine reset version", "concourse-ci-machine status", "concourse-ci-machine status",
		"sudo concourse-ci-machine release-gpu gpu=0 force=true", "sudo concourse-ci-machine up --release=<tarball>"},
		remedies())
	Command = GPUKit
	require.Contains(t, remedies(), "sudo gpukit gpu release 0 --force")
}

package wellknown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine without Juju names no command of Juju.
func TestRemediesNameTheProgramThatRuns(t *testing.T) {
	remedies := func(program Program) []string {
		c := Commands{program, "gpu/0"}
		return []string{c.RunAction("accept-gpus"), c.SetOption("rocm-version=7.2"), c.OnUnit("df -h"),
			c.ResetOption("version"), c.ShowStatus(), c.Of("").ShowStatus(), c.ReleaseGPU("0"), c.GiveRelease(),
			c.Explain(2, 7), c.Integrate("--join=<line>", "flight", "web:tsa"), c.Of("").SetOption("a=b"),
			c.Of("").RunAction("plan")}
	}
	require.Equal(t, []string{"juju run gpu/0 accept-gpus", "juju config gpu rocm-version=7.2", "juju ssh gpu/0 df -h",
		"juju config gpu --reset version", "juju status gpu/0", "juju status",
		"juju run gpu/0 release-gpu gpu=0 force=true", "juju attach-resource <application> concourse-release=<tarball>",
		"dispatch explain 2 7", "juju integrate gpu:flight web:tsa", "juju config <application> a=b",
		"juju run <unit> plan"}, remedies(""))
	require.Equal(t, remedies(""), remedies(Dispatch))
	require.Equal(t, []string{"sudo concourse-ci-machine accept-gpus", "sudo concourse-ci-machine set rocm-version=7.2",
		"df -h", "sudo concourse-ci-machine reset version", "concourse-ci-machine status", "concourse-ci-machine status",
		"sudo concourse-ci-machine release-gpu gpu=0 force=true", "sudo concourse-ci-machine up --release=<tarball>",
		"concourse-ci-machine explain 2 7", "sudo concourse-ci-machine up --join=<line>",
		"sudo concourse-ci-machine set a=b", "sudo concourse-ci-machine plan"}, remedies(MachineProgram))
	require.Contains(t, remedies(GPUKit), "sudo gpukit gpu release 0 --force")
	require.Contains(t, remedies(GPUKit), "gpukit explain 2 7")
	c := Commands{Program: GPUKit}
	require.Equal(t, "sudo gpukit gpu return 0", c.RunAction("return-gpu gpu=0"))
	require.Equal(t, "sudo gpukit explain 2", c.RunAction("explain-error code=2"))
	require.Equal(t, "sudo gpukit gpu status", c.RunAction("gpu-status"))
	require.Equal(t, "sudo gpukit gpu status", c.ShowStatus())
	require.Equal(t, "echo GPUKIT_GPU_QUARANTINE=auto | sudo tee -a /etc/default/gpukit",
		c.SetOption("gpu-quarantine=auto"))
}

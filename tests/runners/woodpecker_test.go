//go:build e2e

package runners

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// woodpecker returns the program, which is built from the source of Woodpecker 3.
func woodpecker(t *testing.T) string {
	program := os.Getenv("WOODPECKER_CLI")
	if program == "" {
		t.Skip("WOODPECKER_CLI does not name woodpecker-cli")
	}
	return program
}

// Woodpecker's own program runs a pipeline on this machine, without a server.
func TestCommandsOfWoodpeckerLeaseGPUs(t *testing.T) {
	program := woodpecker(t)
	m := newMachine(t)
	program = m.copy(program, "woodpecker-cli")
	m.write("pipeline.yaml", `
when: {event: manual}
steps:
  - name: test
    image: bash
    commands:
      - gpukit run --gpus 2 --wait 30m -- sh -c 'echo "command with $HIP_VISIBLE_DEVICES of $GPUKIT_RUN"'
`)
	out, status := m.run([]string{"HOME=" + m.home}, program, "exec", "--local", "--backend-engine", "local",
		"--pipeline-event", "manual", "pipeline.yaml")
	require.Zero(t, status, out)
	require.Regexp(t, `command with 0,1 of run-[0-9a-f]{12}`, out)
	m.free()
}

// Docker's default runtime leases for the steps of the backend docker.
func TestStepsOfWoodpeckerLeaseGPUs(t *testing.T) {
	program := woodpecker(t)
	d := newDocker(t, "--default-runtime", "amd")
	d.write("pipeline.yaml", `
when: {event: manual}
steps:
  - name: test
    image: gpu-test
    environment: {GPU_COUNT: "2"}
    commands: [ 'echo "two:" $(ls /dev/dri | wc -l)' ]
  - name: lint
    image: gpu-test
    commands: [ 'echo "none:" $(ls /dev/dri 2>/dev/null | wc -l)' ]
`)
	c := exec.Command(program, "exec", "--local", "--backend-engine", "docker", "--backend-docker-host", d.host,
		"--pipeline-event", "manual", "pipeline.yaml")
	c.Dir, c.Env = d.home, append(os.Environ(), "HOME="+d.home)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "two: 2\n")
	require.Contains(t, string(out), "none: 0\n")
	d.free()
}

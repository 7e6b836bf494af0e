//go:build e2e

package runners

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Woodpecker's own program runs a pipeline on this machine, without a server.
func TestCommandsOfWoodpeckerLeaseGPUs(t *testing.T) {
	program := os.Getenv("WOODPECKER_CLI")
	if program == "" {
		t.Skip("WOODPECKER_CLI does not name woodpecker-cli, built from the source of Woodpecker 3")
	}
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

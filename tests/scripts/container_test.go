package scripts

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Machines in machines, units below units, and what is not a container yet.
func TestContainerOfAUnit(t *testing.T) {
	newWorld(t) // it needs jq
	const status = `{"machines": {
		"0": {"instance-id": "juju-4f2a10-0", "containers": {"0/lxd/3": {"instance-id": "juju-4f2a10-0-lxd-3"}}},
		"1": {"instance-id": "manual:10.0.0.7"}, "2": {"instance-id": "pending"}},
	"applications": {
		"gpu": {"units": {"gpu/0": {"machine": "0", "leader": true, "subordinates": {"agent/4": {"leader": true}}},
			"gpu/1": {"machine": "0/lxd/3"}, "gpu/2": {"machine": "1"}, "gpu/3": {"machine": "2"}, "gpu/4": {}}},
		"agent": {}}}`
	tests := []struct{ unit, want, problem string }{
		{unit: "gpu/0", want: "juju-4f2a10-0"},
		{unit: "gpu/leader", want: "juju-4f2a10-0"},
		{unit: "agent/4", want: "juju-4f2a10-0"},
		{unit: "gpu/1", want: "juju-4f2a10-0-lxd-3"},
		{unit: "gpu/2", problem: "no LXD container but a machine added by hand (manual:10.0.0.7)"},
		{unit: "gpu/3", problem: "the machine 2 of gpu/3 is not started yet"},
		{unit: "gpu/4", problem: "gpu/4 has no machine yet"},
		{unit: "gpu/9", problem: "there is no unit gpu/9 in this model; there are: gpu/0, "},
		{unit: "agent/leader", want: "juju-4f2a10-0"},
		{unit: "db/leader", problem: "there is no unit db/leader in this model"},
	}
	for _, tt := range tests {
		t.Run(tt.unit, func(t *testing.T) {
			c := exec.Command("bash", "-c", `set -euo pipefail; source ../../scripts/lib/common.sh; found=$(container_of "$1" <<<"$2"); echo "$found"`, "bash", tt.unit, status)
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			c.Run() // its status is looked at below
			if tt.problem != "" {
				require.Equal(t, 1, c.ProcessState.ExitCode())
				require.Empty(t, out.String())
				require.Contains(t, errs.String(), "error: ")
				require.Contains(t, errs.String(), tt.problem)
				return
			}
			require.Zero(t, c.ProcessState.ExitCode(), errs.String())
			require.Equal(t, tt.want+"\n", out.String())
		})
	}
}

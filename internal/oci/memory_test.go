package oci

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryOfTheGPUsNodesIsPreferred(t *testing.T) {
	first, both := nodeMask{1}, nodeMask{1 | 1<<63}
	for name, c := range map[string]struct {
		nodes  [2]string // of the task's GPUs
		memory string
		count  string
		want   *nodeMask
	}{
		"one node":           {[2]string{"0\n", "0\n"}, NearMemory, "2", &first},
		"two nodes":          {[2]string{"0\n", "63\n"}, NearMemory, "2", &both},
		"one of two GPUs":    {[2]string{"0\n", "63\n"}, NearMemory, "1", &first},
		"without the option": {[2]string{"0\n", "0\n"}, "", "2", nil},
		"an unknown node":    {[2]string{"0\n", "-1\n"}, NearMemory, "2", nil},
		"no such node":       {[2]string{"0\n", "1024\n"}, NearMemory, "2", nil},
		"no number":          {[2]string{"0\n", "x\n"}, NearMemory, "2", nil},
		"no file":            {[2]string{"0\n", ""}, NearMemory, "2", nil},
	} {
		b := exclusive(t, func(cfg *Config) {
			cfg.GPUs = []GPU{gpuA.called("0000:03:00.0", "GPU-1a2b"), gpuB.called("0000:c4:00.0-1", "GPU-3c4d")}
			cfg.Leases.Memory = c.memory
		})
		for i, card := range []string{"0000:03:00.0", "0000:c4:00.0"} {
			if c.nodes[i] != "" {
				b.put(t, "sys/"+card+"/numa_node", c.nodes[i])
			}
		}
		b.devices = b.path("sys")
		var got *nodeMask
		b.setMemory = func(mask nodeMask, _ int) { got = &mask }
		require.NoError(t, b.task(t, "c1", "GPU_COUNT="+c.count), name)
		require.Equal(t, c.want, got, name)

		got = nil // the task itself is an exec
		b.put(t, "process.json", `{"args":["true"],"cwd":"/","env":[],"user":{"uid":0,"gid":0}}`)
		require.ErrorContains(t, b.call("exec", "--process", b.path("process.json"), "c1"), "its first process has ended", name)
		require.Equal(t, c.want, got, name)
	}
}

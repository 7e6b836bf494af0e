package gpu

import (
	"path"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// Style is how a GPU is partitioned, as AMD's device plugin and node labeller name it:
// "cpx_nps4" for the kernel's current_compute_partition "CPX" and current_memory_partition
// "NPS4". "" of one that can't be partitioned.
func Style(r host.Root, g GPU) string {
	var compute, memory string
	_ = withFiles(r, func(f files) error {
		compute, memory = changing(f, path.Join(g.Sysfs, "current_compute_partition")),
			changing(f, path.Join(g.Sysfs, "current_memory_partition"))
		return nil
	})
	if compute == "" || memory == "" {
		return ""
	}
	return strings.ToLower(compute + "_" + memory)
}

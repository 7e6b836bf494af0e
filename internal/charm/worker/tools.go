package worker

import (
	"path/filepath"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
)

// toolNames are the programs for tasks: static, so that they run in any image.
var toolNames = []string{"gpu-baseline"}

// toolsFor is the folder of programs that tasks of a unit with GPUs get, "" for none. It is
// not the charm's own folder, which an upgrade replaces under a task that runs; the files in
// this one are replaced one by one, so a task has those of the charm that runs now.
func toolsFor(o Observed, g GPUs) string {
	if !o.Config.GPUTools || len(g.Chosen) == 0 {
		return ""
	}
	return role.ToolsDir
}

func desireTools(d *Desired, o Observed, g GPUs) {
	if toolsFor(o, g) == "" {
		d.Resources = append(d.Resources, resource.Absent{Path: role.ToolsDir, Why: "tasks get no tools", Tree: true})
		return
	}
	d.Resources = append(d.Resources, resource.Dir{Path: role.ToolsDir, Mode: 0o755})
	for _, name := range toolNames {
		d.Resources = append(d.Resources, resource.Copy{Path: filepath.Join(role.ToolsDir, name), From: filepath.Join(o.CharmDir, "bin", name), Mode: 0o755})
	}
}

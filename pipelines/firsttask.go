package pipelines

import (
	"path"
	"strings"
)

// firstTasks are the tasks that check GPUs with a tag, with the variables that they need.
var firstTasks = map[string]struct {
	file string
	vars []string
}{
	"compute-runtime=rocm": {"verify-gpu-amd.yml",
		[]string{"repository=rocm/dev-ubuntu-24.04", "image-tag=latest"}},
	"compute-runtime=cuda": {"verify-gpu-cuda.yml",
		[]string{"repository=nvidia/cuda", "image-tag=12.6.3-base-ubuntu24.04"}},
}

// FirstTask returns the lines of the command that checks the GPUs with a tag, or nil. folder
// has the files of the tasks.
func FirstTask(tag, folder string) []string {
	task, ok := firstTasks[tag]
	if !ok {
		return nil
	}
	return []string{"fly --target ci execute --tag gpu --tag " + tag + ` \`,
		"    --config " + path.Join(folder, task.file) + ` \`,
		"    --var " + strings.Join(task.vars, " --var ")}
}

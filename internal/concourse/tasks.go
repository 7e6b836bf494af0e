package concourse

import (
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// taskPIDs matches the files with the process of a task. Concourse names that process "task",
// and containerd's shim names the file after the process. The shim removes the file once
// Concourse has the exit status.
const taskPIDs = "/run/containerd/io.containerd.runtime.v2.task/concourse/*/task.pid"

// RunningTasks counts the running tasks of the worker.
func RunningTasks(root host.Root) (n int, err error) {
	files, err := root.Glob(taskPIDs)
	for _, file := range files {
		text, err := root.ReadText(file)
		if err != nil {
			continue // it has just ended
		}
		if pid, err := strconv.Atoi(text); err == nil {
			if _, alive := startOf(root, pid); alive {
				n++
			}
		}
	}
	return n, err
}

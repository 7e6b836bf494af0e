package concourse

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// workerLimitKey sets the worker's own limit, in releases after 8.2.
const workerLimitKey = "CONCOURSE_MAX_ACTIVE_TASKS"

// workerLimitFlag matches the flag in the help. Without a terminal, the help breaks names
// of variables into pieces, but not flags.
var workerLimitFlag = lazyregexp.New(`(?m)^ +--max-active-tasks=`)

// LimitsItself reports whether a worker of the installed release can limit its number of
// tasks. Its help then lists the flag.
func LimitsItself(ctx context.Context, h host.Host) (bool, error) {
	help, err := h.Run(ctx, host.Command{Argv: []string{h.Path(release.BinDir + "/concourse"), "worker", "--help"},
		ReadOnly: true, Deadline: helpDeadline})
	return err == nil && workerLimitFlag().Match(help), err
}

// helpDeadline bounds one run of the help, which takes a fifth of a second.
const helpDeadline = 20 * time.Second

// Variables that limit the tasks of a worker, in every release since 5.5 (concourse web
// --help). The first has an effect only with the strategy LimitStrategy, and is one number
// for all workers.
const (
	TaskLimitKey  = "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"
	StrategyKey   = "CONCOURSE_CONTAINER_PLACEMENT_STRATEGY"
	LimitStrategy = "limit-active-tasks"

	// HighLimit is more than any worker takes at once. From 8.3, a web respects the limit
	// of a worker only if the web has a limit too (atc/worker/placement.go).
	HighLimit = 10000

	usualStrategy = "volume-locality" // if none is set
	aloneStrategy = "random"          // can't be combined with another strategy
)

// ToNote returns the variables of this configuration that the operator may set too.
func (c WebConfig) ToNote() (keys []string) {
	if c.LDAP.Host != "" {
		keys = append(keys, ldapClear, ldapStartTLS)
	}
	if c.TaskLimit > 0 {
		keys = append(keys, TaskLimitKey)
	}
	return keys
}

// Limitable reports whether LimitStrategy can be combined with the strategies.
func Limitable(strategies string) bool {
	return !slices.Contains(strings.Split(strategies, ","), aloneStrategy)
}

// limited returns the strategies with LimitStrategy first. Strategies are applied in order,
// so an earlier one that chooses among full workers would wait for them while others are
// free.
func limited(strategies string) string {
	switch {
	case strategies == "":
		return LimitStrategy + "," + usualStrategy
	case slices.Contains(strings.Split(strategies, ","), LimitStrategy):
		return strategies
	}
	return LimitStrategy + "," + strategies
}

// SetsEnv reports whether an environment file sets the variable.
func SetsEnv(file []byte, key string) bool {
	return slices.ContainsFunc(parseEnv(file), func(a assignment) bool { return a.key == key })
}

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

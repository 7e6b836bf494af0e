package concourse

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/concourse/release"
)

// workerLimitKey is the worker's own limit, in releases after 8.2.
const workerLimitKey = "CONCOURSE_MAX_ACTIVE_TASKS"

// workerLimitFlag is its flag in the help. Where that is read by no terminal, names
// of variables are broken into pieces, and flags are not.
var workerLimitFlag = regexp.MustCompile(`(?m)^ +--max-active-tasks=`)

// LimitsItself reports whether a worker of the installed release can be told how
// many tasks it may take at once: its own help names the flag then.
func LimitsItself(ctx context.Context, h host.Host) (bool, error) {
	help, err := h.Run(ctx, host.Command{Argv: []string{h.Path(release.BinDir + "/concourse"), "worker", "--help"}, ReadOnly: true, Deadline: helpDeadline})
	return err == nil && workerLimitFlag.Match(help), err
}

// helpDeadline is for one answer; a release's takes a fifth of a second.
const helpDeadline = 20 * time.Second

// The variables that limit the tasks of a worker, in every release since 5.5
// (concourse web --help). The first has an effect with the strategy
// LimitStrategy only, and is one number for all workers.
const (
	TaskLimitKey  = "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER"
	StrategyKey   = "CONCOURSE_CONTAINER_PLACEMENT_STRATEGY"
	LimitStrategy = "limit-active-tasks"

	// HighLimit is more than any worker takes at once. A web from 8.3 on goes by the limit of
	// a worker only if it has one itself (atc/worker/placement.go).
	HighLimit = 10000

	usualStrategy = "volume-locality" // where there is none
	aloneStrategy = "random"          // takes no other beside it
)

// ToNote are the variables of this configuration that the operator may have as well.
func (c WebConfig) ToNote() (keys []string) {
	if c.LDAP.Host != "" {
		keys = append(keys, ldapClear, ldapStartTLS)
	}
	if c.TaskLimit > 0 {
		keys = append(keys, TaskLimitKey)
	}
	return keys
}

// Limitable reports whether LimitStrategy can stand beside the strategies.
func Limitable(strategies string) bool {
	return !slices.Contains(strings.Split(strategies, ","), aloneStrategy)
}

// limited are the strategies with LimitStrategy before them: strategies are
// applied in their order, and one that chooses among workers that are full, too,
// would wait for them while others are free.
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

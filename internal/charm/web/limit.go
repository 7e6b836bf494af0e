package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// NoteFile lists the variables of the web's environment that the charm wrote and that the
// operator may also write, such as limits. The charm never removes the operator's variables.
const NoteFile = wellknown.StateDir + "/web-limit"

// noLimit names the change with which the charm sets no limit.
const noLimit = "--max-active-tasks-per-worker=0 in extra-web-flags"

// taskLimit returns the web's limit of tasks per worker, 0 for none, and warnings about it.
// Another limit restarts the web, so the last one stays while no worker has GPUs.
func taskLimit(o Observed) (limit int, causes []status.Cause) {
	var gpus []int // numbers of GPUs, with missing ones, of workers without an own limit, each once
	needed, limited, others := false, false, false
	for _, w := range o.Facts.Web.Workers {
		switch {
		case w.Key == "":
			continue
		case w.GPUs.Total() == 0:
			others = true
			continue
		case !w.GPUs.Exclusive:
			others = true
		case w.GPUs.Limited:
			limited = true
			continue
		default:
			needed = true
		}
		if !slices.Contains(gpus, w.GPUs.Total()) {
			gpus = append(gpus, w.GPUs.Total())
		}
	}
	why := "GPU workers have %d GPUs, and the web has one limit for all"
	if last := lastLimit(o); last > 0 && !needed && !limited && len(gpus) == 0 {
		gpus, needed, limited = []int{last}, last != concourse.HighLimit, last == concourse.HighLimit
		why = "the last GPU worker had %d GPUs; if none will follow, set " + noLimit
	}
	strategy, fixed, own := strategies(o)
	unlimited := func(why string, args ...any) (int, []status.Cause) {
		return 0, []status.Cause{status.Warn("tasks are not limited to the GPUs").Explain(why, args...)}
	}
	switch {
	case !needed && !limited || own:
		return 0, nil
	case needed && len(gpus) > 1:
		slices.Sort(gpus)
		return unlimited("workers have %s of them, and the web has one limit for all; set "+
			"--max-active-tasks-per-worker in extra-web-flags", numbers(gpus))
	case fixed && !slices.Contains(strings.Split(strategy, ","), concourse.LimitStrategy):
		return unlimited("extra-web-flags has a --container-placement-strategy without %s; add that, or "+
			noLimit, concourse.LimitStrategy)
	case !concourse.Limitable(strategy):
		return unlimited("container-placement-strategy=%s excludes all others; set another, or "+noLimit,
			strategy)
	case !needed:
		return concourse.HighLimit, nil
	case others:
		causes = append(causes, status.Warn("no worker gets more than %d tasks at once", gpus[0]).
			Explain(why, gpus[0]))
	}
	return gpus[0], causes
}

// lastLimit returns the limit that the charm wrote before, 0 for none.
func lastLimit(o Observed) int {
	if !slices.Contains(o.Noted, concourse.TaskLimitKey) {
		return 0
	}
	n, _ := strconv.Atoi(concourse.EnvValues(o.WebEnv)[concourse.TaskLimitKey])
	return n
}

// numbers returns the first numbers as text.
func numbers(all []int) string {
	const most = 4
	var texts []string
	for i, n := range all {
		if i == most {
			texts = append(texts, "...")
			break
		}
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ", ")
}

// strategies returns how the web chooses a worker. fixed reports that flags choose, which
// have priority over the environment. own reports that the operator limits tasks, with a
// flag or in the web's file.
func strategies(o Observed) (text string, fixed, own bool) {
	var flags []string
	used, _ := webFlags(o)
	for _, f := range used {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "--max-active-tasks-per-worker":
			own = true
		case "--container-placement-strategy":
			flags = append(flags, value)
		}
	}
	own = own || setByOperator(o, concourse.TaskLimitKey)
	if len(flags) > 0 {
		return strings.Join(flags, ","), true, own
	}
	return o.Config.Web.Env[concourse.StrategyKey], false, own
}

// setByOperator reports whether the variable in the web's file is the operator's.
func setByOperator(o Observed, key string) bool {
	return !slices.Contains(o.Noted, key) && concourse.SetsEnv(o.WebEnv, key)
}

// withNote returns the web's environment together with NoteFile. New variables are noted
// before they are written, and removed ones are forgotten afterwards. So a crash between the
// steps loses no note.
func withNote(o Observed, env resource.File, now []string) []plan.Resource {
	note := func(keys []string) resource.File {
		return resource.File{Path: NoteFile, Data: []byte(strings.Join(keys, "\n") + "\n"), Mode: 0o600}
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.Noted, now))))
	var rs []plan.Resource
	if len(all) > 0 {
		rs = append(rs, note(all))
	}
	rs = append(rs, env)
	switch {
	case len(now) == 0:
		rs = append(rs, resource.Absent{Path: NoteFile, Why: "the web's environment has nothing to be noted"})
	case len(now) < len(all):
		rs = append(rs, note(now))
	}
	return rs
}

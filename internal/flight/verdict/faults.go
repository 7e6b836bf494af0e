package verdict

import (
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// FaultsOf returns the faults that quarantine found on the GPUs of a task, as events that the
// task's record lacks. Quarantine reads the GPUs at other times, so each can see more.
func FaultsOf(r *taskrecord.Record, q quarantine.Record) (events []taskrecord.Event) {
	for _, run := range slices.Concat(q.FaultyRuns, q.Runs) {
		if run.Container != r.Head.Handle {
			continue
		}
		add := func(e taskrecord.Event) {
			same := func(o taskrecord.Event) bool { return o.Kind == e.Kind && o.GPU == e.GPU }
			if e.Kind != "" && !slices.ContainsFunc(r.Events, same) && !slices.ContainsFunc(events, same) {
				events = append(events, e)
			}
		}
		for _, u := range run.GPUs {
			if run.Verdict == quarantine.TaskCaused && len(u.NewFaults) > 0 {
				add(taskrecord.Event{At: run.FaultTime(u).UTC(), Kind: taskrecord.OwnFault, GPU: u.Name, Detail: run.Reason})
			}
			for _, f := range u.NewFaults {
				e := taskrecord.Event{At: run.FaultTime(u).UTC(), GPU: u.Name,
					Detail: quarantine.DescribeFaults([]health.Fault{f})}
				switch f.Kind {
				case health.UncorrectableErrors, health.BadPages:
					e.Kind = taskrecord.GPUError
				case health.Hang, health.Reset, health.Unreadable:
					e.Kind = taskrecord.GPUHang
				}
				add(e)
			}
		}
	}
	return events
}

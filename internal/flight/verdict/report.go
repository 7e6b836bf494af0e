package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Kind names the party that made a task fail.
type Kind string

// The kinds of a failed task. A task that succeeded has none, "".
const (
	GPU       Kind = "gpu"       // a GPU of the task
	Machine   Kind = "machine"   // the worker: memory, disk, network or kernel
	Neighbour Kind = "neighbour" // another container on the worker
	Concourse Kind = "concourse" // Concourse's programs, or the network between worker and web
	Task      Kind = "task"      // the task of Concourse itself
	Run       Kind = "run"       // the command of gpukit run itself
	Container Kind = "container" // the program of a container of another engine
	Unknown   Kind = "unknown"   // no sign, or signs that contradict each other
)

// Kinds lists all kinds, infrastructure first.
var Kinds = []Kind{GPU, Machine, Neighbour, Concourse, Task, Run, Container, Unknown}

// Infrastructure reports whether running the build again can help.
func (k Kind) Infrastructure() bool {
	return k == GPU || k == Machine || k == Neighbour || k == Concourse
}

// Entry is one ended task, run or container in the answer of /api/v1/verdicts, which is a list.
// A worker has no names of builds: the web adds Team to Build by the handle. They are
// empty until then.
type Entry struct {
	Handle   string     `json:"handle"`          // of a task, or the id of a run or container
	Holder   lease.Kind `json:"holder"`          // task, run or container
	Title    string     `json:"title,omitempty"` // of a run
	Team     string     `json:"team"`
	Pipeline string     `json:"pipeline"`
	Job      string     `json:"job"`
	Build    string     `json:"build"`
	Started  time.Time  `json:"started"`
	Ended    time.Time  `json:"ended"`
	Exit     *int       `json:"exit"` // null if it is not known
	Kind     Kind       `json:"kind"`
	Reason   string     `json:"reason"` // code of the first reason, such as "oom-limit"
	Text     string     `json:"text"`   // the first reason for people
	GPUs     []string   `json:"gpus"`   // PCI addresses
	// Energy is that of the GPUs, null if it was not measured.
	Energy *taskrecord.Energy `json:"energy"`
	// Clocks has the fixed clocks of a run.
	Clocks *taskrecord.Clocks `json:"fixed_clocks,omitempty"`
}

// Report holds the last entries, the newest first.
type Report struct {
	At      time.Time         `json:"at"`
	Entries []Entry           `json:"entries"`
	Counts  map[string]uint64 `json:"counts"`  // ended tasks since the recorder's start, by kind and Succeeded
	Details []Detail          `json:"details"` // of the last tasks that failed
}

// Succeeded counts the tasks without a kind.
const Succeeded = "succeeded"

// Detail shows why one task failed.
type Detail struct {
	Entry
	Reasons  []Reason            `json:"reasons"`
	Timeline taskrecord.Timeline `json:"timeline"`
}

// MaxEntries and maxDetails bound a report, and detailWidth the intervals of a timeline.
const (
	MaxEntries  = 200
	maxDetails  = 20
	detailWidth = 90
)

// Add adds an ended task as the newest one.
func (r *Report) Add(record *taskrecord.Record, v Verdict) {
	e := EntryOf(record, v)
	r.Entries = slices.DeleteFunc(r.Entries, func(o Entry) bool { return o.Handle == e.Handle })
	r.Details = slices.DeleteFunc(r.Details, func(o Detail) bool { return o.Handle == e.Handle })
	r.Entries = append([]Entry{e}, r.Entries...)
	r.Entries = r.Entries[:min(len(r.Entries), MaxEntries)]
	if v.Kind != "" {
		d := Detail{e, v.Reasons, taskrecord.TimelineOf(record, detailWidth)}
		r.Details = append([]Detail{d}, r.Details...)
		r.Details = r.Details[:min(len(r.Details), maxDetails)]
	}
	r.beginCounts()
}

// Count counts a task that ended.
func (r *Report) Count(v Verdict) {
	r.beginCounts()
	r.Counts[cmp.Or(string(v.Kind), Succeeded)]++
}

// beginCounts sets all counts to 0 if nothing was counted.
func (r *Report) beginCounts() {
	if r.Counts != nil { // a recorder counts only the tasks that ended while it ran
		return
	}
	r.Counts = map[string]uint64{Succeeded: 0}
	for _, k := range Kinds {
		r.Counts[string(k)] = 0
	}
}

// ReportPath is the file of the recorder for the exporter, which is not root.
const ReportPath = wellknown.RunDir + "/task-verdicts.json"

// ReportFile declares a report. Its loss does little harm: the recorder writes it again.
func ReportFile(path string) statefile.File[Report] {
	return statefile.File[Report]{Path: path, Mode: 0o644, Disposable: true}
}

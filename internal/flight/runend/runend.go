// Package runend has the ends of runs, in a file that the lease service writes and the
// recorder reads. A run is a command that gpukit run started with leased GPUs. Only the
// service knows its exit status.
package runend

import (
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
)

// Path has the last ends. It is below /run, because a reboot ends all runs.
const Path = wellknown.RunDir + "/run-ends.json"

// End describes a run that ended and that freed its GPUs.
type End struct {
	ID      string    `json:"id"`    // of the lease, such as run-4f1c0a2b91d3
	Title   string    `json:"title"` // for people
	GPUs    []string  `json:"gpus"`  // names of the leased GPUs, see lease.Leases
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Exit is the exit status, or 128 and the number of the signal. It is nil if it is not known,
	// as for gpukit lease, and for a client that was killed.
	Exit *int `json:"exit"`
	// Clocks is the level of the GPUs' fixed clocks, "" if they were not fixed, and ClocksInvalid why
	// measurements with it are not valid.
	Clocks        fixedclocks.Level `json:"clocks,omitempty"`
	ClocksInvalid string            `json:"clocks_invalid,omitempty"`
}

// Ends holds the last ends, the newest last.
type Ends struct {
	Ends []End `json:"ends"`
}

// MaxEnds bounds the file. The recorder reads it each second.
const MaxEnds = 200

// File declares Path. Its loss does little harm: the recorder then lacks exit statuses.
var File = statefile.File[Ends]{Path: Path, Mode: 0o600, Disposable: true}

// Writer adds ends to the file, and reads it only once. One process has it. Its zero value
// with a root is ready.
type Writer struct {
	Root host.Root
	mu   sync.Mutex
	read bool
	all  Ends
}

// Add adds an end, and drops the oldest beyond MaxEnds.
func (w *Writer) Add(e End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.read {
		all, err := File.Read(w.Root)
		if err != nil {
			return err
		}
		w.all, w.read = all, true
	}
	w.all.Ends = append(w.all.Ends, e)
	w.all.Ends = w.all.Ends[max(0, len(w.all.Ends)-MaxEnds):]
	return File.Write(w.Root, w.all)
}

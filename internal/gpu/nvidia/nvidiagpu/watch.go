package nvidiagpu

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

const (
	// Every is the time between runs of nvidia-smi. Without persistence mode each run makes
	// the driver wake the GPUs, which takes seconds for each.
	Every    = 15 * time.Second
	deadline = 20 * time.Second
)

// places lists the possible paths of nvidia-smi; the last is for a container with its
// host's driver.
var places = []string{"/usr/bin/" + Program, "/usr/local/bin/" + Program, "/usr/local/nvidia/bin/" + Program}

// Watcher runs nvidia-smi for all GPUs.
type Watcher struct {
	host  host.Host
	query []string        // queried fields; nil: not yet read
	stuck <-chan struct{} // closed when an abandoned run ends
}

// NewWatcher returns a watcher of this machine.
func NewWatcher(h host.Host) *Watcher { return &Watcher{host: h} }

// ReportFile declares the file of a Report.
func ReportFile(path string) statefile.File[Report] {
	return statefile.File[Report]{Path: path, Mode: 0o644}
}

// Write runs nvidia-smi once and writes its answer for an exporter that must not block. It
// writes nothing without nvidia-smi, or without a GPU of NVIDIA's driver. It also writes
// nothing while a GPU is suspended, because a run would wake it.
func (w *Watcher) Write(ctx context.Context, file string) error {
	program := w.program()
	if program == "" {
		return nil
	}
	report := w.look(ctx, program)
	if ctx.Err() != nil {
		return nil // the run was killed because of that
	}
	return ReportFile(file).Write(w.host.Root, report)
}

// program returns nvidia-smi's path, "" if it must not run.
func (w *Watcher) program() string {
	inv, err := gpu.Discover(w.host.Root)
	if err != nil {
		return ""
	}
	held := false
	for _, g := range inv.GPUsOf(gpu.NVIDIA) {
		status, _ := sysfile.ReadOnce(w.host.Path(path.Join(g.Sysfs, "power/runtime_status")))
		if strings.HasPrefix(sysfile.Clean(status), "suspend") {
			return ""
		}
		held = held || g.Driver == "nvidia"
	}
	for _, p := range places {
		if held && w.host.Exists(p) {
			return w.host.Path(p)
		}
	}
	return ""
}

// look runs nvidia-smi once, unless the last run hangs in the kernel: a second one would
// hang too.
func (w *Watcher) look(ctx context.Context, program string) Report {
	select {
	case <-w.stuck: // a nil channel never receives
		w.stuck = nil
	default:
		if w.stuck != nil {
			return Report{At: w.host.Now().UTC(), Failure: timeout, Stuck: true, GPUs: []Answer{}}
		}
	}
	var out []byte
	var err error
	if w.query == nil {
		if out, err = w.run(ctx, program, "--help-query-gpu"); err == nil {
			w.query = supportedFields(parseHelp(string(out)))
		}
	}
	var told []Answer
	if err == nil && len(w.query) > 0 {
		out, err = w.run(ctx, program, "--query-gpu="+strings.Join(w.query, ","), "--format=csv,noheader,nounits")
		told = parseRows(w.query, string(out))
	}
	r := Report{At: w.host.Now().UTC(), GPUs: append([]Answer{}, told...)}
	var failed *host.CommandError
	switch {
	case errors.As(err, &failed) && failed.Timeout > 0:
		w.stuck = failed.Ended
		r.Failure, r.Stuck = timeout, w.stuck != nil
	case errors.As(err, &failed):
		r.Failure = fmt.Sprintf("exit_%d", failed.Code)
	case err != nil || len(told) == 0:
		r.Failure = "format"
	}
	if r.Failure != "" && !r.Stuck {
		w.query = nil // the version may have changed
	}
	return r
}

const timeout = "timeout"

func (w *Watcher) run(ctx context.Context, argv ...string) ([]byte, error) {
	return w.host.Run(ctx, host.Command{Argv: argv, ReadOnly: true, Deadline: deadline})
}

// Package recorder writes flight records of the tasks of Concourse on this machine, and of the
// runs and containers of other engines that have its GPUs. It reads their control groups,
// networks and GPUs, the machine and the kernel's log, and judges each that failed. It needs
// root. It never reads a command line, a file or the output of a container, keeps the exit status
// alone of the file in which Docker also has the environment, and takes no part in the create of
// a container.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Options configures a recorder. The zero value of a field selects the default.
type Options struct {
	Root    host.Root
	Store   taskrecord.Store
	Limits  taskrecord.Limits
	Volumes string                                     // folder on the disk of the volumes
	Disk    func(path string, to *unix.Statfs_t) error // reads its space; the kernel does if nil
	Report  string                                     // file for the exporter; "" for none
	Usage   string                                     // file with the users of the GPUs; "": tasks have equal parts of a shared GPU's energy
	// Bundles has a folder for each container of Concourse, by its handle.
	Bundles string
	// Service is the control group of the worker's service, below the mount of control groups.
	Service string
	// Worker is the URL of the worker's list of containers.
	Worker string
	Every  time.Duration // between readings, 5 s
	GPUs   time.Duration // between readings of GPUs, and looks for containers, 1 s
	Log    func(format string, args ...any)
	// Alive is called before each look, and before each record that New reads. A worker has
	// hundreds, and a long one takes half a second.
	Alive func() error
	Now   func() time.Time
	// Kernel replaces the kernel's log.
	Kernel *kernellog.Log
	// Copy runs the copy of a dump, or reads a container's file. nil runs it beside the looks,
	// because a dump has megabytes, and a file may not answer.
	Copy func(work func())
}

// Defaults.
const (
	DefaultBundles = "/run/containerd/io.containerd.runtime.v2.task/concourse"
	DefaultService = "system.slice/concourse-worker.service"
	DefaultEvery   = 5 * time.Second
	DefaultGPUs    = time.Second

	flushEvery = 30 * time.Second // so much is lost at most by a power loss
	pruneEvery = time.Minute
	// reportEvery shows readers that the recorder runs.
	reportEvery = 30 * time.Second
	// settle is the time after the end in which the kernel's lines and dumps still come:
	// amdgpu gives a ring 10 s before it resets the GPU.
	settle = 12 * time.Second
	// exitWait is the longest wait for an exit status, because a worker may be restarting.
	exitWait = 30 * time.Second
	// maxPage bounds the bytes that are read of a file. A table of sockets has 150 to a line.
	maxPage = 1 << 20
)

// Recorder records the tasks of a machine.
type Recorder struct {
	Options
	proc, cgroup string
	containers   map[string]*container
	machine      machine
	services     services
	gpus         gpus
	late         late
	exits        exitFiles
	faultsAt     time.Time // of quarantine's record when late faults were read
	holders      holders
	oom          finding // the last OOM kill
	dumps        dumps
	kernel       *kernellog.Log
	unread       string // why the kernel's log is not read
	boot         string
	report       verdict.Report
	paces        map[string][]taskrecord.Pace // of the last good runs of each program
	changed      bool                         // the report has another entry than its file
	urgent       bool                         // it is written at this look
	read, pruned time.Time
	page         []byte
}

// New returns a recorder. It ends the records of tasks that ended while no recorder ran.
func New(o Options) (*Recorder, error) {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Bundles, DefaultBundles)
	set(&o.Service, DefaultService)
	set(&o.Store.Dir, o.Root.Path(taskrecord.DefaultDir))
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.GPUs <= 0 {
		o.GPUs = DefaultGPUs
	}
	if o.Disk == nil {
		o.Disk = unix.Statfs
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Alive == nil {
		o.Alive = func() error { return nil }
	}
	if o.Copy == nil {
		o.Copy = func(work func()) { go work() }
	}
	r := &Recorder{Options: o, proc: o.Root.Path("/proc"), cgroup: o.Root.Path("/sys/fs/cgroup"),
		containers: map[string]*container{}, paces: map[string][]taskrecord.Pace{}, page: make([]byte, maxPage)}
	boot, err := o.Root.ReadText("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("cannot record tasks: %w", err)
	}
	r.boot = strings.TrimSpace(boot)
	r.gpus = gpus{root: o.Root, now: o.Now, limit: amdgpu.NewLimit(), readers: map[string]*reader{}}
	r.services.proc, r.exits.root = r.proc, o.Root
	r.openKernel()
	exists, err := r.newExists()
	if err := errors.Join(err, r.Store.Settle(r.boot, exists)); err != nil {
		r.Log("%v", err) // one damaged record does not stop the others
	}
	return r, r.loadReport()
}

func (r *Recorder) openKernel() {
	r.kernel = r.Options.Kernel
	if r.kernel != nil {
		return
	}
	if !r.Root.Real() {
		r.unread = "the log is this machine's"
		return
	}
	var err error
	if r.kernel, err = kernellog.Open(); err != nil {
		r.kernel, r.unread = nil, err.Error()
	}
}

// newExists returns a function that reports whether the record of a task, run or container will
// be continued: it is on the machine, or the end of a run is known.
func (r *Recorder) newExists() (func(handle string) bool, error) {
	states, err := r.leases()
	ends, failed := runend.File.Read(r.Root)
	return func(handle string) bool {
		return r.Root.Exists(filepath.Join(r.Bundles, handle)) ||
			slices.ContainsFunc(states, func(s lease.State) bool { return s.Held && s.Container == handle }) ||
			slices.ContainsFunc(ends.Ends, func(e runend.End) bool { return e.ID == handle })
	}, errors.Join(err, failed)
}

// loadReport judges the last records of the store, the oldest first.
func (r *Recorder) loadReport() error {
	files, err := r.Store.List()
	files = slices.DeleteFunc(files, func(f taskrecord.File) bool { return f.Running })
	files = files[:min(len(files), verdict.MaxEntries)]
	for _, f := range slices.Backward(files) {
		if err := r.Alive(); err != nil {
			return err
		}
		one, failed := f.Read()
		if failed != nil {
			r.Log("%v", failed)
			continue
		}
		r.report.Add(&one, verdict.Decide(&one))
		r.addPace(&one)
	}
	r.changed = true
	return err
}

// Run looks until the context is done.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(r.GPUs)
	defer tick.Stop()
	for {
		if err := r.Alive(); err != nil {
			return err
		}
		if err := r.Look(ctx); err != nil {
			r.Log("%v", err)
		}
		select {
		case <-ctx.Done():
			return r.Close()
		case <-tick.C:
		}
	}
}

// Look reads all that is due now.
func (r *Recorder) Look(ctx context.Context) error {
	now := r.Now().UTC()
	err := r.find(now)
	r.readKernel()
	err = errors.Join(err, r.noteCopies())
	r.readDumps()
	r.readGPUs(now)
	due := now.Sub(r.read).Abs() >= r.Every
	if due {
		r.read = now
		r.services.look(r.groupDirs(r.Service))
		r.noteServices(now)
		r.machine.read(r)
	}
	var errs error
	for _, c := range r.sorted() {
		errs = errors.Join(errs, r.lookAt(ctx, c, now, due))
	}
	if due {
		errs = errors.Join(errs, r.readLateFaults(now))
	}
	if due || r.urgent {
		errs = errors.Join(errs, r.writeReport(now))
	}
	return errors.Join(err, errs)
}

// writeReport prunes the store and writes the report.
func (r *Recorder) writeReport(now time.Time) (err error) {
	if now.Sub(r.pruned).Abs() >= pruneEvery {
		r.pruned = now
		err = r.Store.Prune(now, r.Limits)
	}
	if r.Report == "" || !r.changed && now.Sub(r.report.At).Abs() < reportEvery {
		return err
	}
	r.report.At, r.urgent = now, false
	failed := verdict.ReportFile(r.Report).Write(r.Root, r.report)
	r.changed = failed != nil
	return errors.Join(err, failed)
}

// sorted returns the containers by handle.
func (r *Recorder) sorted() []*container {
	all := make([]*container, 0, len(r.containers))
	for _, c := range r.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *container) int { return strings.Compare(a.handle, b.handle) })
	return all
}

// Close writes what was read. A later recorder continues the records.
func (r *Recorder) Close() (err error) {
	err = r.noteCopies()
	for _, c := range r.containers {
		if c.writer != nil && !c.done {
			err = errors.Join(err, c.flush(), c.writer.Close())
		}
	}
	r.gpus.close()
	return errors.Join(err, r.exits.close())
}

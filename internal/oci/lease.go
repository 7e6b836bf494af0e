package oci

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/visible"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// leaseGPUs leases the GPUs that the container requests and returns their indexes. They stay
// leased as long as this process lives, which becomes runc, and then as long as the
// container's task does. A kill at any point leaks no GPU.
func (w *wrapper) leaseGPUs(s *settings, c *cmdline.Call, doc *rawjson.Doc, gpus []visible.GPU,
	env []string) (got []int, h heldLease, err error) {
	leases := w.leases(s, s.GPUNames())
	leases.Links, leases.Missing = s.Leases.Links, s.Leases.Missing
	leases.Label = func(gpu int) string {
		_ = visible.Describe(gpus) // with an error it has only the name in the config
		return gpus[gpu].String()
	}
	got, err = w.leaseWithRetry(s, func() ([]int, error) {
		want := w.readAdmission(s)
		w.addMissing(want.Excluded, gpus)
		if err := visible.SelectLeased(&want, gpus, s.Visible, env); err != nil || want.Count == 0 {
			return nil, err
		}
		var caller lease.Call
		if h, caller, err = w.newCaller(doc, c, w.engine); err != nil {
			return nil, err
		}
		return leases.Try(caller, want)
	})
	if err != nil || len(got) == 0 {
		return nil, heldLease{}, err
	}
	h.setGPUs(s, got)
	return got, h, nil
}

// newCaller returns the lease call of this process. ownProcess is set for containers of
// other engines.
func (w *wrapper) newCaller(doc *rawjson.Doc, c *cmdline.Call, ownProcess bool) (h heldLease,
	caller lease.Call, err error) {
	if w.rootless() {
		return h, caller, errors.New("cannot lease GPUs to a container of an engine without root: leases are " +
			"root's to take; run it with root")
	}
	if h, err = newHeldLease(doc.Root(), c, ownProcess); err == nil {
		caller, err = h.call(c.ID, c.Bundle)
	}
	caller.StepHash = stepHash(doc.Root())
	return h, caller, err
}

// enterLease makes the exec the holder of the container's lease. It refuses if another
// container has one of the GPUs by now. If leases are off, GPUs are shared and it does
// nothing. A start enters the lease only in containers of other engines, because a
// Concourse task does not begin with it.
func (w *wrapper) enterLease(s *settings, c *cmdline.Call, k marker) error {
	if s.Leases == nil || k.lease.empty() || c.Command == "start" && !k.lease.ownProcess {
		return nil
	}
	caller, err := k.lease.call(c.ID, k.bundle)
	if err != nil {
		return err
	}
	caller.Program = w.programDigest(s, c, k)
	all := make([]int, len(k.lease.gpus))
	for i := range all {
		all[i] = i
	}
	leases := w.leases(s, k.lease.gpus)
	leases.Label = func(gpu int) string { return k.lease.gpus[gpu] }
	if err := leases.Enter(caller, all); err != nil {
		return fmt.Errorf("%w [container %s]", err, c.ID)
	}
	return nil
}

// endLease ends the lease of a create that failed before it became runc. If that fails, the
// lease ends with this process, which exits next.
func (w *wrapper) endLease(s *settings, c *cmdline.Call, k marker) {
	if !k.lease.empty() {
		// first, because other containers can lease them afterwards
		_ = w.restoreClocks(s, k.lease.gpus)
		_ = w.leases(s, k.lease.gpus).Cancel(c.ID) // the earlier error is the one to report
	}
}

func (w *wrapper) leases(s *settings, gpus []string) lease.Leases {
	return lease.Leases{Dir: s.Leases.Dir, GPUs: gpus, Euid: w.euid, Now: w.now}
}

// A create waits in two cases only, and for less than a minute. It never learns that its
// build was aborted, and a worker that is stopping waits for it, see
// docs/explanation/gpu-leases.md.
const (
	waitPause = 250 * time.Millisecond
	// unreadyTime is the wait for a GPU with memory that the driver still holds for an
	// ended task. If it takes longer, it is mostly stuck for good.
	unreadyTime = 10 * time.Second
	// quarantineTime is the wait if some GPUs are quarantined and other containers have the
	// rest. Concourse still schedules tasks for all of them: a refused task makes room for
	// the next one here, so one worker with a sick GPU would draw all tasks of the queue
	// one after the other, although other workers are idle. It is also the wait for a GPU
	// of an ended task with remaining processes, until the watcher ends them
	// (lease.EndRemaining).
	quarantineTime = 45 * time.Second
)

// waitLimit returns how long a create may wait after a refusal.
func waitLimit(err error) time.Duration {
	var refused *lease.Refusal
	switch {
	case !errors.As(err, &refused):
		return 0
	case refused.Reason == lease.Unready:
		return unreadyTime
	case refused.Reason != lease.Impossible && refused.Excluded != "" &&
		refused.Kind == lease.Task, refused.TaskEnded():
		return quarantineTime
	}
	return 0
}

// leaseWithRetry calls try until it leases or the wait is over. A container is counted as
// refused once, however often it was tried.
func (w *wrapper) leaseWithRetry(s *settings, try func() ([]int, error)) (got []int, err error) {
	for waited := time.Duration(0); ; waited += waitPause {
		if got, err = try(); waited >= waitLimit(err) {
			w.leases(s, nil).CountRefusal(err)
			return got, err
		}
		w.sleep(waitPause)
	}
}

// readAdmission reads the file of s.Quarantine: which GPUs are excluded, to avoid or not
// ready. It finds none if the file is missing or unusable, see Config.Quarantine.
func (w *wrapper) readAdmission(s *settings) lease.Want {
	var f admission.File
	if s.Quarantine != "" {
		if data, err := w.readTrusted(s.Quarantine); err == nil {
			f, _ = admission.Decode(data)
		}
	}
	return f.Want(s.GPUNames(), func(file string) ([]byte, error) {
		data, _, err := readRegular(file)
		return data, err
	})
}

// addMissing adds GPUs with a node that is missing, until the unit has described its GPUs
// again. A missing node refuses a container of another engine (see inspect), because only
// Concourse runs it again.
func (w *wrapper) addMissing(excluded map[int]string, gpus []visible.GPU) {
	if w.foreign {
		return
	}
	for i, g := range gpus {
		if excluded[i] != "" {
			continue
		}
		for _, n := range g.Nodes {
			var st unix.Stat_t
			if errors.Is(w.lstat(n.HostPath, &st), unix.ENOENT) {
				excluded[i] = "is missing: no " + n.HostPath
				break
			}
		}
	}
}

// runAgain appends lease.RunAgain to an error in a task of Concourse: the unit is about to
// describe its GPUs again.
func (m *machine) runAgain(err error) error {
	if m.foreign {
		return err
	}
	return fmt.Errorf("%w; %s", err, lease.RunAgain)
}

// findGPUs finds the GPUs of the config in the CDI specs.
func (w *wrapper) findGPUs(s *settings) ([]visible.GPU, error) {
	specs, err := w.readSpecs(s.Specs)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(s.GPUs))
	for i, g := range s.GPUs {
		names[i] = g.CDI
	}
	gpus, err := visible.Find(specs, names)
	if err != nil {
		return nil, w.runAgain(err)
	}
	for i, g := range s.GPUs {
		if len(g.Nodes) > 0 && !s.hasNodes(i, gpus[i].Nodes) {
			return nil, w.runAgain(fmt.Errorf("cannot give the task GPU %s: CDI spec %s and %s list different device "+
				"nodes of it; %s", g.CDI, gpus[i].Spec.File, w.config, w.staleSpecRemedy()))
		}
	}
	return gpus, nil
}

// hasNodes reports whether nodes are those of a GPU: at least one is its own, and none is
// another GPU's. Otherwise the spec is of another time than the config, and a task could get
// a GPU that another task has leased.
func (s *settings) hasNodes(gpu int, nodes []cdispec.Node) (own bool) {
	for _, n := range nodes {
		for i, g := range s.GPUs {
			switch {
			case !slices.Contains(g.Nodes, n.Path):
			case i != gpu:
				return false
			default:
				own = true
			}
		}
	}
	return own
}

package oci

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/visible"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// leaseGPUs leases and returns the GPUs that the container requests. They stay leased as
// long as this process lives, which becomes runc, and then as long as the container's task
// does. A kill at any point leaks no GPU.
func (w *wrapper) leaseGPUs(s *settings, c *cmdline.Call, doc *rawjson.Doc, specs []*cdispec.Spec,
	devices []cdispec.Device, env []string) ([]cdispec.Device, heldLease, error) {
	var h heldLease
	var names []string
	got, err := w.leaseWithRetry(s, func() ([]int, error) {
		file := w.readAdmission(s)
		want, err := visible.SelectLeased(specs, devices, s.Visible, env, w.excluded(s, file, devices))
		if err != nil || want.Count == 0 {
			return nil, err
		}
		var caller lease.Call
		if h, caller, err = w.newCaller(doc, c, w.engine); err != nil {
			return nil, err
		}
		if names, err = s.leaseNamesOf(devices); err != nil {
			return nil, w.runAgain(err)
		}
		for _, a := range file.Avoid {
			if at := slices.Index(names, a.Name); at >= 0 {
				want.Avoid = append(want.Avoid, lease.Avoid{GPU: at, StepHash: a.StepHash})
			}
		}
		want.Unready = memoryCheck(file.Memory, names)
		leases := w.leases(s, names)
		leases.Links, leases.Missing = s.Leases.Links, s.Leases.Missing
		leases.Label = func(gpu int) string { return visible.Label(specs, devices[gpu]) }
		return leases.Try(caller, want)
	})
	if err != nil || len(got) == 0 {
		return nil, heldLease{}, err
	}
	own := make([]cdispec.Device, len(got))
	h.gpus = make([]string, len(got))
	for i, g := range got {
		own[i], h.gpus[i] = devices[g], names[g]
	}
	return own, h, nil
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
		// first, because other containers can lease and pin them afterwards
		_ = w.unpin(s, k.lease.gpus)
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

// memoryCheck returns a function that reports why a free GPU is not empty, as read from the
// driver now. It reports "" for a GPU that is empty or cannot be read.
func memoryCheck(memory []admission.IdleMemory, names []string) func(gpu int) string {
	if len(memory) == 0 {
		return nil
	}
	return func(gpu int) string {
		for _, m := range memory {
			if m.Name != names[gpu] {
				continue
			}
			if used, ok := readUsedMemory(m.File); ok && used > m.Most {
				return fmt.Sprintf("has %s of its memory in use, though its last task has ended",
					units.Bytes(float64(used)))
			}
		}
		return ""
	}
}

func readUsedMemory(file string) (uint64, bool) {
	data, _, err := readRegular(file)
	if err != nil {
		return 0, false
	}
	used, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return used, err == nil
}

// LeaseNames returns the names of the leases, in the order of c.Leases.GPUs.
func (c Config) LeaseNames() (names []string) {
	for _, g := range c.Leases.GPUs {
		names = append(names, g.Name)
	}
	return names
}

// leaseNamesOf returns the lease names of devices of the specs, which it finds by their
// nodes.
func (c Config) leaseNamesOf(devices []cdispec.Device) (names []string, err error) {
	for _, d := range devices {
		nodes, err := d.Nodes()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(c.Leases.GPUs, func(g LeasedGPU) bool {
			return slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(g.Nodes, n) })
		})
		if at < 0 {
			return nil, fmt.Errorf("cannot lease GPU %s: the wrapper's config has no name for its device nodes; "+
				"run the task again in a minute, when the unit has described its GPUs again", d.Name)
		}
		names = append(names, c.Leases.GPUs[at].Name)
	}
	return names, nil
}

// readAdmission reads the file of s.Quarantine. It returns an empty one if the file is
// missing or unusable, see Quarantine.File.
func (w *wrapper) readAdmission(s *settings) admission.File {
	if s.Quarantine == nil {
		return admission.File{}
	}
	data, err := w.readTrusted(s.Quarantine.File)
	if err != nil {
		return admission.File{}
	}
	f, _ := admission.Decode(data)
	return f
}

// excluded returns why no new container gets a GPU, by its device nodes: it is quarantined,
// or its node is missing and the unit has not described its GPUs again yet. A missing node
// refuses a container of another engine (see inspect), because Concourse alone runs it again.
func (w *wrapper) excluded(s *settings, f admission.File, devices []cdispec.Device) map[string]string {
	reasons := s.quarantined(f)
	all, err := cdispec.Merge(devices)
	if err != nil || w.foreign {
		return reasons // the caller reports an error
	}
	for _, n := range all.Nodes {
		var st unix.Stat_t
		if !errors.Is(w.lstat(n.HostPath, &st), unix.ENOENT) {
			continue
		}
		if reasons == nil {
			reasons = map[string]string{}
		}
		reasons[n.Path] = "is missing: there is no " + n.HostPath
	}
	return reasons
}

// runAgain appends lease.RunAgain to an error in a task of Concourse: the unit is about to
// describe its GPUs again.
func (m *machine) runAgain(err error) error {
	if m.foreign {
		return err
	}
	return fmt.Errorf("%w; %s", err, lease.RunAgain)
}

// quarantined returns why no new container gets a GPU, by its device nodes.
func (s *settings) quarantined(f admission.File) map[string]string {
	if len(f.GPUs) == 0 {
		return nil
	}
	reasons := map[string]string{}
	for _, g := range f.GPUs {
		at := slices.IndexFunc(s.Quarantine.GPUs, func(l LeasedGPU) bool { return l.Name == g.Name })
		if at < 0 {
			continue // tasks do not get the GPU anyway
		}
		for _, node := range s.Quarantine.GPUs[at].Nodes {
			reasons[node] = cmp.Or(reasons[node], strings.ToValidUTF8(g.Reason, "?"))
		}
	}
	return reasons
}

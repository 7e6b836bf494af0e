package recorder

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	gpuusage "github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// findUsers adds the containers of Docker and Podman that have a GPU open without a lease, as the
// last scan of the GPUs' users shows them. A container that is shorter than the time between two
// scans can be missed.
func (r *Recorder) findUsers(there map[string]bool, now time.Time) error {
	for _, c := range r.containers {
		if p, alive := r.process(c.init.pid); c.unleased && alive && (p == c.init || !c.checked) {
			there[c.handle] = true
		}
	}
	if r.Usage == "" {
		return nil
	}
	info, err := os.Stat(r.Root.Path(r.Usage))
	if err != nil || r.holders.scan != nil && os.SameFile(info, r.holders.scan) {
		return nil // missing without a scan; each write makes another file
	}
	scan, err := gpuusage.File(r.Usage).Read(r.Root)
	if err != nil {
		return err
	}
	r.holders.scan = info
	var errs error
	for _, d := range scan.Devices {
		for _, p := range d.Processes {
			if p.Container == "" || p.PID <= 0 || p.Host {
				continue
			}
			h, init, err := r.engineContainer(p)
			errs = errors.Join(errs, err)
			c := r.containers[h.handle]
			if h.handle == "" || c == nil && len(there) >= maxContainers {
				continue
			}
			if c == nil {
				c = r.newContainer(h, now)
				c.init.pid = init
				r.containers[h.handle], there[h.handle] = c, true
			}
			name := gpu.Slot{PCI: d.PCI, Partition: d.Partition}.Address()
			if c.unleased && !c.checked && !slices.Contains(c.gpus, name) {
				c.gpus = append(c.gpus, name)
			}
		}
	}
	return errs
}

// engineContainer returns the container of a process and its first process, by its control group.
// The handle is "" for a process in no container of Docker or Podman, such as in a pod or a run.
func (r *Recorder) engineContainer(p gpuusage.Process) (h holder, init int, err error) {
	text, err := r.text(p.PID, "cgroup")
	if err != nil {
		return h, 0, nil // it has ended
	}
	g, _ := r.groupOf(text, func(element string) bool {
		name := strings.TrimSuffix(element, ".scope")
		id := name[strings.LastIndexByte(name, '-')+1:]
		switch {
		case len(id) != 64 || !strings.HasPrefix(id, p.Container):
			return false
		case strings.HasPrefix(name, "libpod-"):
			h = holder{engine: "podman"}
		case r.Root.Exists(path.Join(dockerState, id, dockerFile)):
			h = holder{engine: "docker"}
		default:
			return false
		}
		h.kind, h.handle, h.unleased = lease.Container, id, true
		return true
	})
	init = p.PID
	for _, dir := range g.dirs {
		inside, failed := lease.Leases{Proc: r.proc}.InGroup(dir)
		err = errors.Join(err, failed)
		for i := range inside { // the first process of a container is its oldest
			if first := inside[i]; first.PID > 0 && r.isOlder(first, init) {
				init = first.PID
			}
		}
	}
	return h, init, err
}

// isOlder reports whether a process began before another.
func (r *Recorder) isOlder(p lease.Process, than int) bool {
	other, alive := r.process(than)
	return alive && p.Start < other.start
}

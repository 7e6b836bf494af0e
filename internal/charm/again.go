package charm

import (
	"concourse-ci-machine/internal/charm/worker"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu/nvidia"
)

// describedNow reports whether the run that ended gave tasks GPUs that it could
// not know of when it began: another run then hands them out.
func (c *Charm) describedNow(want worker.Worker) bool {
	if !want.GeneratesSpec {
		return false
	}
	names, err := worker.NVIDIADevices(c.Host.Root)
	return err == nil && len(names) > 0 && nvidia.ReadAttempt(c.Host.Root) == nil
}

// limitUnknown reports whether the run that ended installed a release that has not
// been asked: another run then knows what its worker can limit.
func (c *Charm) limitUnknown(want worker.Worker) bool {
	_, id, installed := release.Installed(c.Host.Root)
	return want.GPUs.Exclusive && installed && want.LimitRelease != id
}

// brought reports whether this run installed a driver that tasks were waiting
// for: what it serves is seen by another look only.
func brought(w worker.Worker, changed bool) bool {
	return changed && w.Driver != nil && !w.Driver.HasGPUs && w.Driver.Decision.Driver
}

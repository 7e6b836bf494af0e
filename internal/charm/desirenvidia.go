package charm

import (
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/nvidia"
)

// desireNVIDIA is NVIDIA's toolkit and its description of the unit's GPUs,
// where nobody else made one.
func desireNVIDIA(d *Desired, o Observed, g GPUs) {
	if g.Vendor != gpu.NVIDIA || len(g.All) == 0 {
		return
	}
	want := nvidiaToolkit(o, g).Want()
	d.Resources = append(d.Resources, want.Resources...)
	d.NVIDIA = true
	if want.Note != "" {
		d.Causes = append(d.Causes, Cause{Active, want.Note})
	}
	d.Describes = want.Describes && len(g.Chosen) == 0
}

func nvidiaToolkit(o Observed, g GPUs) nvidia.Toolkit {
	t := nvidia.Toolkit{Version: o.Config.NVIDIAToolkitVersion, Arch: o.Arch, Proxies: proxyOf(o.Facts, o.Config), GPUs: g.All, Seen: o.NVIDIAToolkit, Now: o.Now}
	if o.Machine.LXD() {
		t.Container = o.Machine.Hostname
	}
	return t
}

// described reports whether the run that ended gave tasks GPUs that it could
// not know of when it began: another run then hands them out.
func (c *Charm) described(want Desired) bool {
	if !want.Describes {
		return false
	}
	names, err := nvidiaDevices(c.Host.Root)
	return err == nil && len(names) > 0 && nvidia.ReadAttempt(c.Host.Root) == nil
}

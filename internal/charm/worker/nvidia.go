package worker

import (
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/nvidia"
)

// desireNVIDIA is NVIDIA's toolkit and its description of the unit's GPUs,
// where nobody else made one.
func desireNVIDIA(d *Desired, o Observed, g GPUs) {
	if g.Vendor != gpu.NVIDIA || len(g.All) == 0 {
		return
	}
	want := NVIDIAToolkit(o, g).Want()
	d.Resources = append(d.Resources, want.Resources...)
	d.NVIDIA = true
	if want.Note != "" {
		d.Causes = append(d.Causes, status.Cause{Kind: status.Active, Text: want.Note})
	}
	d.Describes = want.Describes && len(g.Chosen) == 0
}

// NVIDIAToolkit is what NVIDIA's toolkit is decided on.
func NVIDIAToolkit(o Observed, g GPUs) nvidia.Toolkit {
	t := nvidia.Toolkit{Version: o.Config.NVIDIAContainerToolkitVersion, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config), GPUs: g.All, Seen: o.NVIDIAToolkit, Now: o.Now}
	if o.Machine.LXD() {
		t.Container = o.Machine.Hostname
	}
	return t
}

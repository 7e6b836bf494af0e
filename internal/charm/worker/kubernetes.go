package worker

import (
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// The service that offers the unit's GPUs to a kubelet. It does not run under Pebble:
// Pebble's services may not write to the kubelet's folder, and restart together. Each
// restart takes the GPUs from the kubelet for a moment.
const (
	PluginUnit = "concourse-gpu-device-plugin.service"

	pluginFile = unitDir + PluginUnit
	pluginName = "gpu-device-plugin"
	pluginBin  = role.BinDir + "/" + pluginName

	ReloadPlugin  = "daemon-reload-gpu-device-plugin"
	RestartPlugin = "restart-gpu-device-plugin"

	// kubeletDir exists once a kubelet ran on the machine.
	kubeletDir = "/var/lib/kubelet/device-plugins"
)

// observeKubelet looks for a kubelet, and digests the program that would serve it.
func (o *Observed) observeKubelet(h host.Host) (err error) {
	if o.Kubelet = h.Exists(kubeletDir); o.Kubelet {
		o.PluginDigest, err = role.Programs(o.CharmDir, pluginName)
	}
	return err
}

// servesKubelet reports whether the unit offers its GPUs to a kubelet.
func servesKubelet(o Observed, g GPUs) bool {
	return o.Config.GPU.Kubernetes != config.KubernetesOff && o.Kubelet && g.Vendor.Has(gpu.Kubernetes)
}

// desireKubernetes returns the device plugin on units with AMD GPUs and a kubelet.
func desireKubernetes(o Observed, g GPUs) (p part) {
	state := o.Units[PluginUnit]
	if !servesKubelet(o, g) {
		why := "tasks get no AMD GPU"
		if !o.Kubelet {
			why = "the kubelet is missing"
		}
		if o.Config.GPU.Kubernetes == config.KubernetesOff {
			why = "kubernetes=off"
		}
		p.add(removeKubernetes(state, why)...)
		return p
	}
	unit, err := templates.Render(PluginUnit, map[string]string{"Program": pluginBin})
	if err != nil {
		return part{err: err}
	}
	p.add(resource.Copy{Path: pluginBin, From: filepath.Join(o.CharmDir, "bin", pluginName), Mode: 0o755},
		resource.File{Path: pluginFile, Data: unit, Mode: 0o644},
		resource.Trigger{
			Name: ReloadPlugin, Inputs: [][]byte{unit}, Files: []string{pluginFile},
			Op:   "reload systemd for " + PluginUnit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}},
		resource.Service{Unit: PluginUnit, State: state, Up: true},
		resource.Trigger{
			Name: RestartPlugin, Inputs: [][]byte{unit, o.PluginDigest}, Files: []string{pluginFile},
			Unit: PluginUnit, State: state, Op: "restart " + PluginUnit, Adopt: role.Starts(state),
			Then: []host.Command{resource.Systemctl("restart", PluginUnit)}})
	return p
}

func removeKubernetes(state resource.UnitState, why string) []plan.Resource {
	return append([]plan.Resource{resource.Service{Unit: PluginUnit, State: state, Why: why}},
		resource.AllAbsent(why, pluginFile, pluginBin)...)
}

// ObserveLabels reads the node labels of the GPUs if a program can use them: Node Feature
// Discovery is set up, or the machine has a kubelet.
func (o *Observed) ObserveLabels(r host.Root) {
	if o.Config.GPU.Kubernetes == config.KubernetesOff || !r.Exists(nodelabels.Parent) && !r.Exists(kubeletDir) {
		return
	}
	o.NodeLabels = new(nodelabels.Read(r, o.GPUs.GPUsOf(gpu.VendorWith(gpu.Kubernetes))))
}

// desireLabels returns the file of labels for the GPUs of the tasks. Pods are offered the same
// GPUs.
func desireLabels(o Observed, g GPUs) (p part) {
	if o.NodeLabels == nil || !g.Vendor.Has(gpu.Kubernetes) || len(g.Chosen) == 0 {
		p.add(resource.Absent{Path: nodelabels.File, Why: "the unit has no GPUs for Kubernetes"})
		return p
	}
	m := *o.NodeLabels
	m.GPUs = map[gpu.Slot]nodelabels.Values{}
	for _, c := range g.Chosen {
		if values, has := o.NodeLabels.GPUs[c.Slot]; has {
			m.GPUs[c.Slot] = values
		}
	}
	p.add(resource.File{Path: nodelabels.File, Data: nodelabels.Lines(nodelabels.Labels(m)), Mode: 0o644})
	return p
}

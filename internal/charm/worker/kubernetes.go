package worker

import (
	"path/filepath"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// The services of which one offers the unit's GPUs to a kubelet. They do not run under Pebble:
// Pebble's services may not write to the kubelet's folder, and restart together. Each
// restart takes the GPUs from the kubelet for a moment.
const (
	PluginUnit = "concourse-gpu-device-plugin.service"
	DriverUnit = "concourse-gpu-dra-driver.service" // if pods use claims

	// kubeletDir exists once a kubelet ran on the machine.
	kubeletDir = "/var/lib/kubelet/device-plugins"
)

var kubeletUnits = []string{PluginUnit, DriverUnit}

// kubeletProgram returns the program of a service.
func kubeletProgram(unit string) string {
	return strings.TrimSuffix(strings.TrimPrefix(unit, "concourse-"), ".service")
}

func kubeletFiles(unit string) []string {
	return []string{unitDir + unit, filepath.Join(role.BinDir, kubeletProgram(unit))}
}

func kubernetesFiles() []string { return append(kubeletFiles(PluginUnit), kubeletFiles(DriverUnit)...) }

// observeKubelet looks for a kubelet, and digests the program that would serve it.
func (o *Observed) observeKubelet(h host.Host) (err error) {
	if o.Kubelet = h.Exists(kubeletDir); o.Kubelet {
		o.KubeletDigest, err = role.Programs(o.CharmDir, kubeletProgram(chosenKubeletUnit(*o)))
	}
	return err
}

func chosenKubeletUnit(o Observed) string {
	if o.Config.GPU.Kubernetes == config.KubernetesClaims {
		return DriverUnit
	}
	return PluginUnit
}

// servingKubelet returns the service that offers the unit's GPUs to a kubelet, "" for none.
func servingKubelet(o Observed, g GPUs) string {
	if o.Config.GPU.Kubernetes == config.KubernetesOff || !o.Kubelet || !g.Vendor.Has(gpu.Kubernetes) {
		return ""
	}
	return chosenKubeletUnit(o)
}

// desireKubernetes returns the chosen service on units with AMD GPUs and a kubelet, and removes
// the other one.
func desireKubernetes(o Observed, g GPUs) (p part) {
	unit := servingKubelet(o, g)
	why := "tasks get no AMD GPU"
	switch {
	case o.Config.GPU.Kubernetes == config.KubernetesOff || unit != "":
		why = "kubernetes=" + string(o.Config.GPU.Kubernetes)
	case !o.Kubelet:
		why = "the kubelet is missing"
	}
	for _, other := range kubeletUnits {
		if other != unit {
			p.add(stopKubernetes(o.Observed, other, why))
			p.add(resource.AllAbsent(why, kubeletFiles(other)...)...)
		}
	}
	if unit == "" {
		return p
	}
	files, program, state := kubeletFiles(unit), kubeletProgram(unit), o.Units[unit]
	text, err := templates.Render(unit, map[string]string{"Program": files[1]})
	if err != nil {
		return part{err: err}
	}
	p.add(resource.Copy{Path: files[1], From: filepath.Join(o.CharmDir, "bin", program), Mode: 0o755},
		resource.File{Path: files[0], Data: text, Mode: 0o644},
		resource.Trigger{
			Name: "daemon-reload-" + program, Inputs: [][]byte{text}, Files: files[:1],
			Op:   "reload systemd for " + unit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}},
		resource.Service{Unit: unit, State: state, Up: true},
		resource.Trigger{
			Name: "restart-" + program, Inputs: [][]byte{text, o.KubeletDigest}, Files: files[:1],
			Unit: unit, State: state, Op: "restart " + unit, Adopt: role.Starts(state),
			Then: []host.Command{resource.Systemctl("restart", unit)}})
	return p
}

func stopKubernetes(o role.Observed, unit, why string) plan.Resource {
	return resource.Service{Unit: unit, State: o.Units[unit], Why: why}
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

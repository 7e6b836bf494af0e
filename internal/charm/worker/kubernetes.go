package worker

import (
	"path/filepath"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/templates"
)

// The service that offers the unit's GPUs to a kubelet. It is not under Pebble, whose
// services may not write there, and are all restarted with one of them: each restart
// takes the GPUs from the kubelet for a moment.
const (
	PluginUnit = "concourse-gpu-device-plugin.service"

	pluginFile = unitDir + PluginUnit
	pluginName = "gpu-device-plugin"
	pluginBin  = role.BinDir + "/" + pluginName

	ReloadPlugin  = "daemon-reload-gpu-device-plugin"
	RestartPlugin = "restart-gpu-device-plugin"

	// kubeletDir is there since a kubelet first ran on the machine.
	kubeletDir = "/var/lib/kubelet/device-plugins"
)

// observeKubelet looks whether there is one, and which program would serve it.
func (o *Observed) observeKubelet(h host.Host) (err error) {
	if o.Kubelet = h.Exists(kubeletDir); o.Kubelet {
		o.PluginDigest, err = role.Programs(o.CharmDir, pluginName)
	}
	return err
}

// desireKubernetes is the service on units with AMD's GPUs and a kubelet. Without a kubelet
// there is nothing of it.
func desireKubernetes(d *Desired, o Observed, g GPUs) error {
	desireLabels(d, o, g)
	state := o.Units[PluginUnit]
	switch {
	case o.Config.Kubernetes == "off":
		d.Resources = append(d.Resources, removeKubernetes(state, "kubernetes=off")...)
		return nil
	case !o.Kubelet:
		d.Resources = append(d.Resources, removeKubernetes(state, "there is no kubelet")...)
		return nil
	case g.Vendor != gpu.AMD:
		d.Resources = append(d.Resources, removeKubernetes(state, "tasks get no AMD GPU")...)
		return nil
	}
	unit, err := templates.Render(PluginUnit, map[string]string{"Program": pluginBin})
	if err != nil {
		return err
	}
	d.Kubernetes = true
	d.Resources = append(d.Resources,
		resource.Copy{Path: pluginBin, From: filepath.Join(o.CharmDir, "bin", pluginName), Mode: 0o755},
		resource.File{Path: pluginFile, Data: unit, Mode: 0o644},
		resource.Trigger{Name: ReloadPlugin, Inputs: [][]byte{unit}, Files: []string{pluginFile}, Op: "reload systemd for " + PluginUnit,
			Then: []host.Command{resource.Systemctl("daemon-reload")}},
		resource.Service{Unit: PluginUnit, State: state, Up: true},
		resource.Trigger{Name: RestartPlugin, Inputs: [][]byte{unit, o.PluginDigest}, Files: []string{pluginFile}, Unit: PluginUnit, State: state,
			Op: "restart " + PluginUnit, Adopt: role.Starts(state), Then: []host.Command{resource.Systemctl("restart", PluginUnit)}})
	return nil
}

func removeKubernetes(state resource.UnitState, why string) []plan.Resource {
	return append([]plan.Resource{resource.Service{Unit: PluginUnit, State: state, Why: why}}, resource.AllAbsent(why, pluginFile, pluginBin)...)
}

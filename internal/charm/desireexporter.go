package charm

import (
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/templates"
)

// Pebble's places.
const (
	PebbleUnit   = "concourse-pebble.service"
	PebbleDir    = StateDir + "/pebble"
	PebbleSocket = PebbleDir + "/.pebble.socket"

	exporterService = "rocm-exporter"
	exporterURL     = "http://127.0.0.1:9401/-/healthy"
)

// desireExporter is Pebble with the exporter, on units that have AMD GPUs and
// were asked to use them.
func desireExporter(d *Desired, o Observed, g GPUs) error {
	command := []string{exporterBin, "--web.listen-address=:9401", "--path.root=/"}
	if o.Config.DCGMAliases {
		command = append(command, "--dcgm-aliases")
	}
	layer, err := resource.PebbleLayer{Dir: PebbleDir + "/layers", Service: exporterService, Summary: "GPU metrics on port 9401",
		Command: command, User: "nobody", Group: "nogroup",
		Check: exporterService, URL: exporterURL}.File()
	if err != nil {
		return err
	}
	unit := "/etc/systemd/system/" + PebbleUnit
	state := o.Units[PebbleUnit]
	reload := []host.Command{resource.Systemctl("daemon-reload")}
	if g.Vendor != gpu.AMD || len(g.All) == 0 {
		why := "this unit has no AMD GPU to watch"
		d.Resources = append(d.Resources, resource.Service{Unit: PebbleUnit, State: state, Why: why},
			resource.Absent{Path: layer.Path, Why: why}, resource.Absent{Path: unit, Why: why})
		return nil
	}
	data, err := templates.Render(PebbleUnit, map[string]string{"Dir": PebbleDir, "Pebble": pebbleBin})
	if err != nil {
		return err
	}
	d.Exporter = true
	d.Resources = append(d.Resources, resource.Dir{Path: PebbleDir, Mode: 0o755}, layer, resource.File{Path: unit, Data: data, Mode: 0o644},
		resource.Trigger{Name: reloadPebble, Inputs: [][]byte{data}, Op: "reload systemd for " + PebbleUnit, Then: reload},
		resource.Service{Unit: PebbleUnit, State: state, Up: true},
		resource.Trigger{Name: restartPebble, Inputs: [][]byte{data, layer.Data, o.Programs},
			Op: "restart " + PebbleUnit, Adopt: starts(state),
			Then: []host.Command{resource.Systemctl("restart", PebbleUnit)}})
	return nil
}

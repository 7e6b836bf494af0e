package charm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"

	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/machine"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/nvidia"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/templates"
)

// The units that have GPUs described anew between two hooks, and the program
// that they run: the charm's folder is in pieces while the charm is upgraded.
const (
	refreshUnit    = "concourse-cdi-refresh.path"
	refreshService = "concourse-cdi-refresh.service"
	refreshTimer   = "concourse-cdi-refresh.timer"
	unitDir        = "/etc/systemd/system/"
	dispatchBin    = BinDir + "/dispatch"
	reloadRefresh  = "daemon-reload-cdi-refresh"
)

func refreshFiles() []string {
	return []string{unitDir + refreshService, unitDir + refreshTimer, unitDir + refreshUnit, dispatchBin}
}

// desireRefresh is the units, on workers that were asked for GPUs. The path
// unit brings the timer with it.
func desireRefresh(d *Desired, o WorkerObserved, g GPUs) error {
	state := o.Units[refreshUnit]
	if g.Vendor == "" && o.Config.ComputeRuntime != "auto" {
		d.Resources = append(d.Resources, leaveRefresh(state, "compute-runtime is "+o.Config.ComputeRuntime)...)
		return nil
	}
	var all [][]byte
	var paths []string
	files := []plan.Resource{resource.Copy{Path: dispatchBin, From: filepath.Join(o.CharmDir, "dispatch"), Mode: 0o755}}
	for _, name := range []string{refreshService, refreshTimer, refreshUnit} {
		data, err := templates.Render(name, map[string]string{"Dispatch": dispatchBin})
		if err != nil {
			return err
		}
		all, paths = append(all, data), append(paths, unitDir+name)
		files = append(files, resource.File{Path: unitDir + name, Data: data, Mode: 0o644})
	}
	then := []host.Command{resource.Systemctl("daemon-reload")}
	if !starts(state) { // they watch what they were started for
		then = append(then, resource.Systemctl("try-restart", refreshUnit, refreshTimer))
	}
	d.Resources = append(d.Resources, files...)
	d.Resources = append(d.Resources,
		resource.Trigger{Name: reloadRefresh, Inputs: all, Files: paths, Op: "reload systemd for " + refreshUnit, Then: then},
		resource.Service{Unit: refreshUnit, State: state, Up: true})
	return nil
}

func leaveRefresh(state resource.UnitState, why string) []plan.Resource {
	rs := []plan.Resource{resource.Service{Unit: refreshUnit, State: state, Why: why}}
	for _, path := range refreshFiles() {
		rs = append(rs, resource.Absent{Path: path, Why: why})
	}
	return rs
}

// RefreshCDI describes the GPUs anew, as the next hook would, with what Juju
// said in the last one, and tells which of them tasks get. It changes the
// descriptions and the wrapper's settings only where there are such already,
// and restarts nothing: tags and status are the next hook's.
func (c *Charm) RefreshCDI(ctx context.Context, w io.Writer) error {
	unlock, err := c.Host.Lock(LockFile)
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w", LockFile, err)
	}
	defer unlock()
	begun, err := c.putBack(ctx)
	if err != nil {
		return err
	}
	facts, err := model.Load(c.Host.Root)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("cannot describe the GPUs: %s is readable by root only; run it with sudo", model.FactsFile)
	}
	if err != nil {
		return err
	}
	cfg, problems := config.Parse(facts.Config, facts.Secrets)
	switch {
	case facts.Unit == "":
		return errors.New("cannot describe the GPUs: no hook has run on this machine yet")
	case len(problems) > 0:
		return fmt.Errorf("cannot describe the GPUs until this option is right: %s", problems[0])
	case facts.Role != model.WorkerRole || cfg.ComputeRuntime == "none" || !c.Host.Exists(oci.DefaultConfig):
		_, err := io.WriteString(w, "nothing to do: tasks of this unit get no GPUs\n")
		return err
	}
	o := WorkerObserved{UnitObserved: UnitObserved{Facts: facts, Config: cfg, Arch: runtime.GOARCH, Machine: machine.Observe(c.Host.Root).Under(facts.Juju), Now: c.Host.Now()}}
	if o.GPUs, err = gpu.Discover(c.Host.Root); err != nil {
		return err
	}
	o.observeLinks(c.Host.Root)
	p, err := c.refreshNVIDIA(ctx, o)
	if err != nil {
		return err
	}
	if o.NVIDIA, err = NVIDIADevices(c.Host.Root); err != nil {
		return err
	}
	rest, err := plan.Diff(ctx, c.Host, refreshed(o)...)
	if err != nil {
		return err
	}
	if _, err := rest.Apply(ctx, nil); err != nil {
		return err
	}
	return slices.Concat(begun, p, rest).Print(w)
}

// refreshNVIDIA has NVIDIA's tool describe its GPUs anew where the charm had it
// do so before.
func (c *Charm) refreshNVIDIA(ctx context.Context, o WorkerObserved) (plan.Plan, error) {
	of := o.GPUs.Of(gpu.NVIDIA)
	if len(of) == 0 {
		return nil, nil
	}
	var err error
	if o.NVIDIAToolkit, err = nvidia.Observe(c.Host.Root); err != nil {
		return nil, err
	}
	p, err := plan.Diff(ctx, c.Host, nvidiaToolkit(o, GPUs{All: of}).Refresh()...)
	if err != nil {
		return nil, err
	}
	_, err = p.Apply(ctx, nil)
	return p, err
}

// refreshed is what follows from the GPUs that there are now.
func refreshed(o WorkerObserved) []plan.Resource {
	g := DecideGPUs(o.Config, o.GPUs, o.Machine, o.NVIDIA)
	var d Desired
	if err := desireSpec(&d, o, g); err != nil {
		return []plan.Resource{impossible{err}}
	}
	// Without a GPU and without folders the wrapper stays in place, with nothing
	// to hand out: taking it away takes a restart.
	file, err := wrapperFile(wrapperConfig(&d, o, g))
	if err != nil {
		return []plan.Resource{impossible{err}}
	}
	return append(d.Resources, file)
}

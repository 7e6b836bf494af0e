package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// nvidiaVendor implements vendor. The driver belongs to the machine.
type nvidiaVendor struct{}

func (nvidiaVendor) observe(_ context.Context, o *Observed, h host.Host) (err error) {
	o.NVIDIAToolkit, err = nvidia.Observe(h.Root)
	return jujuerrors.Annotate(err, "cannot observe NVIDIA's container toolkit")
}

func (nvidiaVendor) readSpec(o *Observed, r host.Root) (err error) {
	o.NVIDIA, err = nvidiaDevices(r)
	return err
}

// nvidiaDevices reads the device names in NVIDIA's CDI spec.
func nvidiaDevices(r host.Root) ([]string, error) {
	data, err := r.ReadFile(nvidia.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, jujuerrors.Annotatef(err, "cannot read %s", nvidia.Path)
	}
	var spec struct {
		Devices []struct{ Name string }
	}
	if json.Unmarshal(data, &spec) != nil {
		return []string{}, nil // the status shows the command that recreates the file
	}
	names := []string{}
	for _, d := range spec.Devices {
		names = append(names, d.Name)
	}
	return names, nil
}

func (nvidiaVendor) explainUnit(*GPUs, Observed) {}

// nvidiaGenerate is the command that describes NVIDIA GPUs.
const nvidiaGenerate = "sudo nvidia-ctk cdi generate --format=json --output=" + nvidia.Path

// explainChosen checks that the chosen GPUs are described. Only NVIDIA's tool has the list
// of libraries and device nodes of NVIDIA's driver.
func (nvidiaVendor) explainChosen(g *GPUs, o Observed) {
	described := o.NVIDIA
	if described == nil {
		g.cause(status.Block("no %s", nvidia.Path).Explain("nvidia-container-toolkit makes it").
			Fix("on the unit run: " + nvidiaGenerate))
		return
	}
	for i, one := range g.All {
		if contains(g.Chosen, one) && !slices.Contains(described, strconv.Itoa(i)) {
			g.cause(status.Block("GPU %d is not in %s", i, nvidia.Path).Fix("on the unit run: " + nvidiaGenerate))
		}
	}
}

// desire returns the toolkit and its description of the unit's GPUs, unless another program
// made a description.
func (nvidiaVendor) desire(o Observed, g GPUs, w *Worker) (p part) {
	if g.Vendor != gpu.NVIDIA || len(g.All) == 0 {
		return p
	}
	want := nvidiaToolkit(o, g.All).Desire()
	p.add(want.Resources...)
	p.cause(rankToolkit, status.Warn("%s", want.Note))
	w.Toolkit, w.generatesSpec = gpu.NVIDIA, len(g.Chosen) == 0 && want.Describes
	return p
}

// nvidiaToolkit returns the input for the decision on NVIDIA's toolkit.
func nvidiaToolkit(o Observed, gpus []gpu.GPU) nvidia.Toolkit {
	t := nvidia.Toolkit{
		Version: o.Config.Driver.NVIDIAContainerToolkit, Arch: o.Arch, Proxies: role.ProxyOf(o.Facts, o.Config),
		GPUs: gpus, Seen: o.NVIDIAToolkit, Now: o.Now,
	}
	if o.Machine.LXD() {
		t.Container = o.Machine.Hostname
	}
	return t
}

// describe returns nothing: NVIDIA's toolkit writes the description.
func (nvidiaVendor) describe(Observed, GPUs) part { return part{} }

// GeneratedSpec reports whether applying described GPUs that were unknown before. The next
// run of the pipeline makes them available to tasks.
func (w Worker) GeneratedSpec(r host.Root) bool {
	if !w.generatesSpec {
		return false
	}
	names, err := nvidiaDevices(r)
	return err == nil && len(names) > 0 && nvidia.ReadAttempt(r) == nil
}

func (nvidiaVendor) refresh(o Observed, r host.Root) (rs []plan.Resource, err error) {
	gpus := o.GPUs.GPUsOf(gpu.NVIDIA)
	if len(gpus) == 0 {
		return nil, nil
	}
	if o.NVIDIAToolkit, err = nvidia.Observe(r); err != nil {
		return nil, err
	}
	return nvidiaToolkit(o, gpus).Refresh(), nil
}

func (nvidiaVendor) wrap(*oci.Config, Observed, GPUs) error { return nil }

// watch adds the owner of NVIDIA GPUs, which runs nvidia-smi as root, and then reports the
// leases. NVIDIA GPUs have no quarantine, and the kernel has no file with their users.
func (nvidiaVendor) watch(l *resource.PebbleLayer, o Observed, g GPUs) {
	l.Command = append(l.Command, "--collect.usage=false", "--nvidia.report="+role.NVIDIAReport)
	l.Helper, l.HelperCommand = role.GPUService, []string{
		role.ExporterBin, "write-gpus", role.GPUReport, "--path.root=/", "--vendor=nvidia",
		"--nvidia.report=" + role.NVIDIAReport,
	}
	if leases(o, g) {
		l.HelperCommand = append(l.HelperCommand, "--", dispatchBin, "gpu", "leases")
	}
}

func (nvidiaVendor) uninstall(_ role.Observed, why string) []plan.Resource {
	return nvidia.Uninstall(why)
}

func (nvidiaVendor) notes(r host.Root, _ Worker, _ bool) (texts, details []string) {
	if a := nvidia.ReadAttempt(r); a != nil {
		texts = append(texts, a.Text())
	}
	return texts, nil
}

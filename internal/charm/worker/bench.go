package worker

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/clockpin"
)

// bench is how the clocks of leased GPUs are fixed for tasks that measure; nil where they
// are not.
func bench(o Observed, gpus []gpu.GPU) *oci.Bench {
	if !o.Config.GPUBench {
		return nil
	}
	var list []oci.BenchGPU
	for _, g := range gpus {
		name := gpu.Slot(g.PCI, g.Partition)
		if g.Vendor == gpu.AMD && clockpin.IsWholeGPU(name) {
			list = append(list, oci.BenchGPU{Name: name, Sysfs: path.Join(clockpin.Devices, name), Level: levelOf(g.GFX)})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &oci.Bench{Dir: clockpin.DefaultDir, GPUs: list}
}

// levelOf is the level that a GPU's driver has. It is not tried out: MI300 and later refuse
// the levels for profiling, and older kernels leave clock gating off after a refusal.
func levelOf(gfx string) clockpin.Level {
	if strings.HasPrefix(gfx, "gfx94") || strings.HasPrefix(gfx, "gfx95") {
		return clockpin.Determinism
	}
	return clockpin.Standard
}

// pinsBack gives GPUs their own clocks back on a unit whose looks at them end.
type pinsBack struct {
	charmDir string
	why      string
}

// backTime is more than the driver takes.
const backTime = 5 * time.Second

// Diff implements plan.Resource. A process of its own does it: one that a GPU hangs can't
// end itself.
func (b pinsBack) Diff(_ context.Context, h host.Host) (p plan.Plan, err error) {
	entries, err := h.ReadDir(clockpin.DefaultDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name := e.Name()
		if r, wrong := (clockpin.Pins{Dir: h.Path(clockpin.DefaultDir)}).Read(name); r == nil && wrong == nil || !clockpin.IsWholeGPU(name) {
			continue
		}
		p = append(p, plan.Step{Op: "give GPU " + name + " its own clocks back", Why: b.why, Tolerate: true, Do: func(ctx context.Context) error {
			_, err := h.Run(ctx, host.Command{Argv: []string{filepath.Join(b.charmDir, "dispatch"), "gpu", "bench", name, "end"}, Deadline: backTime})
			return err
		}})
	}
	return p, err
}

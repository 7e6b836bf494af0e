package worker

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// ObserveLinks reads the links between the unit's GPUs if leases choose by them.
func (o *Observed) ObserveLinks(r host.Root) {
	if o.Config.GPU.Sharing == config.Exclusive {
		o.Links = gpu.ReadLinks(r, o.GPUs.GPUs)
	}
}

// observeLeases reads which GPUs are leased from the exporter's report. A hook does not
// read the leases themselves. The values are only shown to people, so an old or unreadable
// report is ignored.
func (o *Observed) observeLeases(h host.Host) {
	r, err := pool.LeaseFile.Read(h.Root)
	if o.Config.GPU.Sharing != config.Exclusive || err != nil || r.At.IsZero() {
		return
	}
	o.Leases = &r
}

// leases reports whether tasks lease the unit's GPUs.
func leases(o Observed, g GPUs) bool {
	return o.Config.GPU.Sharing == config.Exclusive && len(g.Chosen) > 0
}

// leaseConfig returns how the wrapper leases the chosen GPUs. It returns nil if tasks share
// them.
func leaseConfig(o Observed, g GPUs) *oci.Leases {
	if !leases(o, g) {
		return nil
	}
	return &oci.Leases{
		Dir: lease.DefaultDir, Links: linkWeights(o, chosenInOrder(g)),
		Missing: addressesOf(g.Missing),
	}
}

// chosenInOrder returns the GPUs of the tasks in the order of the wrapper's config.
func chosenInOrder(g GPUs) (list []gpu.GPU) {
	for _, one := range g.All {
		if contains(g.Chosen, one) {
			list = append(list, one)
		}
	}
	return list
}

// linkWeights returns the weights of the links between GPUs, for leases. It returns nil if
// all links are equal or unknown.
func linkWeights(o Observed, gpus []gpu.GPU) [][]int {
	at := make([]int, len(gpus)) // in o.GPUs.GPUs
	for i, one := range gpus {
		at[i] = slices.IndexFunc(o.GPUs.GPUs, func(g gpu.GPU) bool { return g.Render.Path == one.Render.Path })
	}
	rows, better := make([][]int, len(gpus)), false
	for i, a := range at {
		rows[i] = make([]int, len(gpus))
		for j, b := range at {
			if i != j && max(a, b) < len(o.Links) && min(a, b) >= 0 {
				l := o.Links[a][b]
				rows[i][j] = lease.LinkWeight(l.Same, l.Hops, l.NUMA)
			}
			better = better || rows[i][j] != 0
		}
	}
	if !better {
		return nil
	}
	return rows
}

// desireLeases returns the causes for options without an effect, and removes the report
// that the exporter would continue to show.
func desireLeases(o Observed, g GPUs) (p part) {
	if o.Config.GPU.Sharing == config.Exclusive && g.Vendor == "" && len(g.Causes) == 0 {
		p.cause(rankLeases, status.Warn("gpu-sharing=exclusive has no effect while compute-runtime=none"))
	}
	if o.Config.GPU.FixedClocks && o.Config.GPU.Sharing != config.Exclusive {
		p.cause(rankLeases, status.Warn("gpu-fixed-clocks=true has no effect while gpu-sharing=shared"))
	}
	if o.Config.GPU.Quarantine == quarantine.Reset && o.Config.GPU.Sharing != config.Exclusive {
		p.cause(rankLeases, status.Warn("gpu-quarantine=reset is as auto while gpu-sharing=shared"))
	}
	if !leases(o, g) {
		p.add(resource.Absent{Path: pool.ReportFile, Why: "GPUs are not leased"})
	}
	return p
}

// clocksOf returns how the wrapper fixes the clocks of a GPU for tasks that measure, and nil
// if it does not. Only leased GPUs have fixed clocks.
func clocksOf(o Observed, g gpu.GPU) *fixedclocks.Setting {
	name := g.Address()
	if !o.Config.GPU.FixedClocks || o.Config.GPU.Sharing != config.Exclusive || !g.Vendor.Has(gpu.Clocks) ||
		!fixedclocks.IsWholeGPU(name) {
		return nil
	}
	return &fixedclocks.Setting{Sysfs: path.Join(fixedclocks.Devices, name), Level: clockLevel(g.GFX)}
}

// clockLevel returns the performance level that the driver of a GPU supports. It does not
// try levels: MI300 and later refuse the profiling levels, and older kernels leave clock
// gating off after a refusal.
func clockLevel(gfx string) fixedclocks.Level {
	if strings.HasPrefix(gfx, "gfx94") || strings.HasPrefix(gfx, "gfx95") {
		return fixedclocks.Determinism
	}
	return fixedclocks.Standard
}

// ClockReset resets the clocks of GPUs on a machine that stops watching them.
type ClockReset struct {
	Program string // dispatch or gpukit
	Why     string
}

// resetTimeout is longer than the driver takes.
const resetTimeout = 5 * time.Second

// Diff implements plan.Resource. Each GPU gets a separate process, because a process that
// hangs in the driver cannot end itself.
func (b ClockReset) Diff(_ context.Context, h host.Host) (p plan.Plan, err error) {
	entries, err := h.ReadDir(fixedclocks.DefaultDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name := e.Name()
		r, readErr := fixedclocks.Store{Dir: h.Path(fixedclocks.DefaultDir)}.Read(name)
		if r == nil && readErr == nil || !fixedclocks.IsWholeGPU(name) {
			continue
		}
		p = append(p, plan.Step{
			Op: "restore the clocks of GPU " + name, Why: b.Why, Tolerate: true,
			Do: func(ctx context.Context) error {
				_, err := h.Run(ctx, host.Command{
					Argv:     []string{b.Program, "gpu", "fixed-clocks", name, "end"},
					Deadline: resetTimeout,
				})
				return err
			}})
	}
	return p, err
}

package worker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func at(addresses ...string) (all []gpu.GPU) {
	for _, a := range addresses {
		all = append(all, gpu.GPU{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: a}})
	}
	return all
}

func TestMissingGPUsAreReportedUntilAccepted(t *testing.T) {
	had := KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b", "c"}}
	for name, c := range map[string]struct {
		was     KnownGPUs
		runtime config.ComputeRuntime
		have    []gpu.GPU
		now     KnownGPUs
		gone    []string
	}{
		"first seen":           {KnownGPUs{}, "rocm", at("b", "a"), KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b"}}, nil},
		"none yet":             {KnownGPUs{}, "rocm", nil, KnownGPUs{}, nil},
		"as before":            {had, "rocm", at("a", "b", "c"), had, nil},
		"one gone":             {had, "rocm", at("a", "c"), had, []string{"b"}},
		"all gone":             {had, "rocm", nil, had, []string{"a", "b", "c"}},
		"one more":             {had, "rocm", at("a", "b", "c", "d"), KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b", "c", "d"}}, nil},
		"another in its place": {had, "rocm", at("a", "b", "d"), KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b", "d"}}, nil},
		"in partitions":        {had, "rocm", at("a", "a", "b", "c"), had, nil},
		"partitions no more":   {KnownGPUs{Runtime: "rocm", PCI: []string{"a"}}, "rocm", at("a"), KnownGPUs{Runtime: "rocm", PCI: []string{"a"}}, nil},
		"another runtime":      {had, config.RuntimeAuto, at("a"), KnownGPUs{Runtime: config.RuntimeAuto, PCI: []string{"a"}}, nil},
		"no GPUs wanted":       {had, config.RuntimeNone, nil, KnownGPUs{}, nil},
	} {
		now, gone := c.was.update(c.runtime, c.have)
		now.Each = nil // see TestMissingPartitionsKeepTheirNumbers
		require.Equal(t, c.now, now, name)
		require.Equal(t, c.gone, gone, name)
	}
}

func TestAcceptedGPUsAreNotReported(t *testing.T) {
	h := hosttest.Root(t)
	had := KnownGPUs{Runtime: "rocm", PCI: []string{"a", "b"}}
	require.NoError(t, had.Write(h))
	got, err := ReadKnown(h)
	require.NoError(t, err)
	require.Equal(t, had, got)
	require.NoError(t, h.Remove(GPUsFile)) // the action
	got, err = ReadKnown(h)
	require.NoError(t, err)
	now, gone := got.update("rocm", at("a"))
	require.Empty(t, gone)
	require.NoError(t, now.Write(h))
	require.NoError(t, KnownGPUs{}.Write(h))
	require.False(t, h.Exists(GPUsFile))
	hosttest.Put(t, h, GPUsFile, "{")
	got, err = ReadKnown(h)
	require.NoError(t, err)
	require.Equal(t, KnownGPUs{}, got)
}

// A GPU that hangs is named as such, because passing it through again does not help.
func TestHangingGPUIsNamedAmongMissingGPUs(t *testing.T) {
	hangs := gpu.GPU{Slot: gpu.Slot{PCI: "0000:04:00.0", Vendor: gpu.AMD}, Reason: gpu.Hangs, Detail: gpu.Hangs.Text()}
	for _, container := range []string{"", "lxc"} {
		o := running(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"}))
		o.Machine.Container = container
		o.GPUs.Unusable = []gpu.GPU{hangs}
		o.Known = KnownGPUs{Runtime: "rocm", PCI: []string{hangs.PCI, o.GPUs.GPUs[0].PCI},
			Each: []gpu.Slot{{PCI: hangs.PCI}, o.GPUs.GPUs[0].Stored()}}
		d := Desire(o, nil)
		require.Contains(t, text("Ready"+d.Suffix, d.Causes), "active: Ready (GPU: 1x AMD); 1 GPU missing: 0000:04:00.0: 0000:04:00.0 (it hangs) — "+
			"restore them or run: juju run concourse-ci-machine/0 accept-gpus — run: juju run concourse-ci-machine/0 explain-error code=2")
		o.GPUs.GPUs = nil
		d = Desire(o, nil)
		require.Contains(t, text("Ready"+d.Suffix, d.Causes), "blocked: AMD GPU 0000:04:00.0 does not count: it hangs — "+
			"run: juju run concourse-ci-machine/0 explain-error code=2", container)
	}
}

// A worker without tags takes the untagged steps of all teams. A GPU worker keeps its tags
// without GPUs.
func TestWorkerThatLostItsGPUsTakesNoUntaggedSteps(t *testing.T) {
	const says = "steps without tags go to other workers: this one has the tag gpu-count=0"
	for name, c := range map[string]struct {
		host    string
		runtime config.ComputeRuntime
		known   []string
		tag     string
		status  string // part of it
	}{
		"asked for, no kfd":     {"amd-no-kfd", "rocm", nil, "gpu-count=0", "blocked: no /dev/kfd"},
		"auto, no kfd":          {"amd-no-kfd", config.RuntimeAuto, nil, "gpu-count=0", "blocked: no /dev/kfd"},
		"asked for, no GPU":     {"no-gpu", "rocm", nil, "gpu-count=0", "blocked: no AMD GPU"},
		"auto, no GPU":          {"no-gpu", config.RuntimeAuto, nil, "", "active: Ready; no GPU passed through"},
		"auto, had one":         {"no-gpu", config.RuntimeAuto, []string{"0000:03:00.0"}, "gpu-count=0", "1 GPU missing: 0000:03:00.0: 0000:03:00.0 — restore them or run: juju run concourse-ci-machine/0 accept-gpus"},
		"one of five":           {"mi210x4", "rocm", []string{"0000:03:00.0", "1", "2", "3", "4"}, "gpu-count=4", "1 GPU missing: "},
		"none wanted, had some": {"no-gpu", config.RuntimeNone, []string{"0000:03:00.0"}, "", "active: Ready"},
		"as it should be":       {"amd", "rocm", nil, "gpu-count=1", "active: Ready (GPU: 1x AMD)"},
	} {
		o := running(observed(t, hosttest.Host(t, c.host), map[string]any{"compute-runtime": string(c.runtime)}))
		o.Known = KnownGPUs{Runtime: c.runtime, PCI: c.known}
		d := Desire(o, nil)
		env, ok := resourcetest.File(d.Resources, concourse.EnvFile)
		require.True(t, ok)
		status := text("Ready"+d.Suffix, d.Causes)
		require.Contains(t, status, c.status, name)
		if c.tag == "" {
			require.NotContains(t, env, "CONCOURSE_TAG=", name)
		} else {
			require.Contains(t, env, c.tag, name)
		}
		if c.tag == "gpu-count=0" {
			require.Contains(t, status, says, name)
		} else {
			require.NotContains(t, status, says, name)
		}
	}
}

// without returns the unit without these slots, at the hook after the one with all GPUs.
func without(t *testing.T, set map[string]any, gone ...string) Observed {
	t.Helper()
	set["compute-runtime"], set["gpu-sharing"] = "rocm", "exclusive"
	o := running(observed(t, hosttest.Host(t, "mi210x4"), set))
	o.Known = remembered(t, Desire(o, nil).Known)
	o.GPUs.GPUs = slices.DeleteFunc(slices.Clone(o.GPUs.GPUs), func(g gpu.GPU) bool { return slices.Contains(gone, g.PCI) })
	return o
}

// remembered returns the content of the file.
func remembered(t *testing.T, k KnownGPUs) (next KnownGPUs) {
	t.Helper()
	r := hosttest.Root(t)
	require.NoError(t, k.Write(r))
	next, err := ReadKnown(r)
	require.NoError(t, err)
	return next
}

// A missing chosen GPU does not make the option invalid. Tasks keep the other GPUs, and no
// GPU gets its number.
func TestMissingChosenGPUKeepsTheOthersForTasks(t *testing.T) {
	const idOf1 = "GPU-2f90ab16c8e7431d"
	for name, c := range map[string]struct {
		ids  string
		gone []int
		give []int  // slots that tasks get
		says string // part of the status
	}{
		"one of two":             {"0,1", []int{1}, []int{0}, "Ready (GPU: 1x AMD); 1 GPU missing: 0000:43:00.0: 0000:43:00.0 — restore them or run: juju run concourse-ci-machine/0 accept-gpus"},
		"the first of two":       {"0,1", []int{0}, []int{1}, "Ready (GPU: 1x AMD); 1 GPU missing"},
		"a number stays":         {"1", []int{0}, []int{1}, "Ready (GPU: 1x AMD); 1 GPU missing"},
		"a range":                {"0-3", []int{1, 2}, []int{0, 3}, "Ready (GPU: 2x AMD); 2 GPUs missing"},
		"an address":             {"0000:43:00.0,0000:83:00.0", []int{1}, []int{2}, "Ready (GPU: 1x AMD); 1 GPU missing"},
		"a unique id":            {idOf1 + ",3", []int{1}, []int{3}, "Ready (GPU: 1x AMD); 1 GPU missing"},
		"one that is not chosen": {"0,1", []int{3}, []int{0, 1}, "Ready (GPU: 2x AMD); 1 GPU missing"},
		"all that were chosen":   {"0,2", []int{0, 2}, nil, "blocked: gpu-device-ids: its GPUs are missing: 0000:23:00.0, 0000:83:00.0: give them back, or name others"},
		"none is gone":           {"0,1", nil, []int{0, 1}, "active: Ready (GPU: 2x AMD)"},
		"never there":            {"0,7", []int{1}, nil, `blocked: gpu-device-ids: "7" is not a GPU of this machine; it has 0, 1, 2, 3`},
		"never there, a range":   {"0-4", []int{1}, nil, `blocked: gpu-device-ids: "0-4" reaches beyond the GPUs of this machine; it has 0, 1, 2, 3`},
		"another address":        {"0000:99:00.0", []int{1}, nil, `blocked: gpu-device-ids: "0000:99:00.0" is not a GPU of this machine`},
	} {
		t.Run(name, func(t *testing.T) {
			var gone []string
			for _, i := range c.gone {
				gone = append(gone, slotsOf[i])
			}
			o := without(t, map[string]any{"gpu-device-ids": c.ids}, gone...)
			d := Desire(o, nil)
			require.Contains(t, text("Ready"+d.Suffix, d.Causes), c.says)
			require.Equal(t, o.Known, d.Known, "what is gone is missed until somebody says otherwise")
			w := wrapperOf(t, d)
			if c.give == nil {
				require.Empty(t, w.GPUs)
				require.NotEmpty(t, w.Missing)
				return
			}
			var names []string
			for _, g := range w.GPUs {
				names = append(names, g.Name)
			}
			var want []string
			for _, i := range c.give {
				want = append(want, slotsOf[i])
			}
			require.Equal(t, want, names)
			require.Empty(t, w.Missing)
			require.Equal(t, d.GPUs.Missing, len(w.Leases.Missing))
			require.Subset(t, gone, w.Leases.Missing)
			require.Equal(t, lease.DefaultDir, w.Leases.Dir)
		})
	}
}

// Concourse goes on to send tasks for a missing GPU. The web's limit includes it, and the
// wrapper lets tasks wait for it.
func TestMissingGPUsOfTasksArePublishedAndNamedToTheWrapper(t *testing.T) {
	for name, c := range map[string]struct {
		ids     string
		gone    []int
		count   int
		missing []string
	}{
		"one of all":        {"", []int{1}, 3, []string{slotsOf[1]}},
		"one of two chosen": {"0,1", []int{1}, 1, []string{slotsOf[1]}},
		"one not chosen":    {"0,1", []int{3}, 2, nil},
		"all that are":      {"", []int{0, 1, 2, 3}, 0, slotsOf},
		"all chosen":        {"0,1", []int{0, 1}, 0, slotsOf[:2]},
	} {
		t.Run(name, func(t *testing.T) {
			var gone []string
			for _, i := range c.gone {
				gone = append(gone, slotsOf[i])
			}
			o := without(t, map[string]any{"gpu-device-ids": c.ids}, gone...)
			d := Desire(o, nil)
			require.Equal(t, c.count, d.GPUs.Count)
			require.Equal(t, len(c.missing), d.GPUs.Missing)
			require.True(t, d.GPUs.Exclusive)
			if w := wrapperOf(t, d); c.count > 0 {
				require.Equal(t, c.missing, w.Leases.Missing)
			} else {
				require.Contains(t, w.Missing, lease.RunAgain)
			}
			o.Known = KnownGPUs{} // accept-gpus
			require.Zero(t, Desire(o, nil).GPUs.Missing)
		})
	}
}

// A change of the tags, also of their order, restarts the worker, which fails builds.
func TestTagsExcludeAMissingGPULateLikeAQuarantinedOne(t *testing.T) {
	archs := []string{"gfx90a", "gfx942", "gfx908", "gfx942"}
	mixed := func(gone ...string) Observed {
		o := without(t, map[string]any{}, gone...)
		for i := range o.GPUs.GPUs {
			o.GPUs.GPUs[i].GFX = archs[slices.Index(slotsOf, o.GPUs.GPUs[i].PCI)]
		}
		return o
	}
	o := mixed()
	quarantined(&o)
	all := env(t, Desire(o, nil))
	lost := mixed(slotsOf[1])
	lost.Quarantine = o.Quarantine
	lost.Quarantine.Find(slotsOf[1]).GFX = archs[1]
	require.Equal(t, all, env(t, Desire(lost, nil)), "before the watcher has looked")
	l := quarantine.Look{At: lost.Now, Policy: quarantine.Auto}
	for i, slot := range slotsOf {
		if i != 1 {
			l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: slot, Index: i, GFX: archs[i]}, Up: true})
		}
	}
	lost.Quarantine = quarantine.Decide(lost.Quarantine, l)
	require.NotEqual(t, quarantine.InService, lost.Quarantine.Find(slotsOf[1]).State)
	d := Desire(lost, nil)
	require.Equal(t, all, env(t, d))
	next(t, &lost, d, excludeAfter+time.Second)
	require.Contains(t, env(t, Desire(lost, nil))["CONCOURSE_TAG"], "gpu-count=3")
}

// After accept-gpus the GPUs are numbered again.
func TestAcceptGPUsRenumbersGPUs(t *testing.T) {
	o := without(t, map[string]any{"gpu-device-ids": "2"}, slotsOf[0])
	require.Equal(t, slotsOf[2], wrapperOf(t, Desire(o, nil)).GPUs[0].Name)
	o.Known = KnownGPUs{}
	require.Equal(t, slotsOf[3], wrapperOf(t, Desire(o, nil)).GPUs[0].Name)
	o = without(t, map[string]any{"gpu-device-ids": "3"}, slotsOf[0])
	o.Known = KnownGPUs{}
	d := Desire(o, nil)
	require.Contains(t, text("Ready"+d.Suffix, d.Causes), `blocked: gpu-device-ids: "3" is not a GPU of this machine; it has 0, 1, 2`)
}

// The wrapper's config is also written between hooks, without Juju.
func TestRefreshKeepsTheOtherChosenGPUs(t *testing.T) {
	o := without(t, map[string]any{"gpu-device-ids": "0,1"}, slotsOf[1])
	d := Desired{}
	d.Resources = RefreshResources(o)
	require.Equal(t, slotsOf[0], wrapperOf(t, d).GPUs[0].Name)
}

// Each partition has a number, and all partitions of a GPU have its address.
func TestMissingPartitionsKeepTheirNumbers(t *testing.T) {
	var all []gpu.GPU
	for _, pci := range []string{"0000:03:00.0", "0000:43:00.0"} {
		for p := range 4 {
			all = append(all, gpu.GPU{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: pci, Partition: p}})
		}
	}
	k, gone := KnownGPUs{}.update("rocm", all)
	require.Empty(t, gone)
	k = remembered(t, k)
	require.Len(t, k.PCI, 2)
	numbers := func(all []gpu.GPU) (list []string) {
		for _, g := range all {
			list = append(list, g.Address())
		}
		return list
	}
	require.Equal(t, numbers(all), numbers(k.numbered("rocm", all)))
	require.Equal(t, numbers(all), numbers(k.numbered("rocm", all[4:])), "the first board is gone")
	require.Equal(t, numbers(all[4:]), numbers(k.numbered(config.RuntimeAuto, all[4:])), "known by another option")
	whole := []gpu.GPU{{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: "0000:43:00.0"}}, {Slot: gpu.Slot{Vendor: gpu.AMD, PCI: "0000:99:00.0"}}}
	require.Equal(t, "0000:03:00.0 0000:03:00.0-1 0000:03:00.0-2 0000:03:00.0-3 0000:43:00.0 0000:99:00.0",
		strings.Join(numbers(KnownGPUs{Runtime: k.Runtime, PCI: append(slices.Clone(k.PCI), "0000:a3:00.0"), Each: k.Each}.numbered("rocm", whole)), " "),
		"one board is whole now, and another is new")
}

// Programs for the card fail on the integrated GPU: it must not get their tags.
func TestIntegratedGPUGetsNoTasksWhileTheCardIsMissing(t *testing.T) {
	r := hosttest.Host(t, "amd")
	hosttest.AddIntegrated(t, r)
	desire := func(ids string, change func(*Observed)) Desired {
		o := running(observed(t, r, map[string]any{"compute-runtime": "rocm", "gpu-sharing": "exclusive", "gpu-device-ids": ids}))
		change(&o)
		return Desire(o, nil)
	}
	first := desire("all", func(*Observed) {})
	require.Equal(t, " (GPU: 1x AMD)", first.Suffix)
	require.Contains(t, env(t, first)["CONCOURSE_TAG"], "gpu-count=1,gfx=gfx1100")
	require.NotContains(t, env(t, first)["CONCOURSE_TAG"], "gfx1036")
	require.Equal(t, "0000:03:00.0", wrapperOf(t, first).GPUs[0].Name)
	require.Equal(t, 1, first.GPUs.Count)
	known := remembered(t, first.Known)
	require.Len(t, known.PCI, 2)

	both := desire("0,1", func(*Observed) {})
	require.Equal(t, " (GPU: 2x AMD)", both.Suffix)

	gone := func(o *Observed) { // as Discover finds a machine without the card
		o.Known = known
		o.GPUs.GPUs = o.GPUs.GPUs[1:]
		o.GPUs.GPUs[0].BesideCard = false
	}
	lost := desire("all", gone)
	require.Contains(t, text("Ready"+lost.Suffix, lost.Causes), "blocked: gpu-device-ids: its GPUs are missing: 0000:03:00.0")
	require.NotContains(t, env(t, lost)["CONCOURSE_TAG"], "gfx1036")
	require.Equal(t, known, remembered(t, lost.Known))
	require.Empty(t, wrapperOf(t, lost).GPUs)

	accepted := desire("all", func(o *Observed) { gone(o); o.Known = KnownGPUs{} })
	require.Contains(t, env(t, accepted)["CONCOURSE_TAG"], "gfx=gfx1036")

	refused := desire("all", func(o *Observed) { // it is listed, and fails
		o.GPUs.Unusable = append(o.GPUs.Unusable, gpu.GPU{Slot: gpu.Slot{PCI: "0000:03:00.0", Vendor: gpu.AMD}, Reason: gpu.NoCompute, Detail: "KFD does not list it"})
		o.GPUs.GPUs = o.GPUs.GPUs[1:]
	})
	require.Contains(t, text("Ready"+refused.Suffix, refused.Causes), "blocked: AMD GPU 0000:03:00.0 does not count: KFD does not list it")
	require.NotContains(t, env(t, refused)["CONCOURSE_TAG"], "gfx1036")
}

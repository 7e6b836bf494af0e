package worker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// without is the unit after these of its slots went away, at the hook after the one that
// saw all of them.
func without(t *testing.T, set map[string]any, gone ...string) Observed {
	t.Helper()
	set["compute-runtime"], set["gpu-sharing"] = "rocm", "exclusive"
	o := running(observed(t, hosttest.Host(t, "mi210x4"), set))
	o.Known = remembered(t, Desire(o, nil).Known)
	o.GPUs.GPUs = slices.DeleteFunc(slices.Clone(o.GPUs.GPUs), func(g gpu.GPU) bool { return slices.Contains(gone, g.PCI) })
	return o
}

// remembered is what the file has of it.
func remembered(t *testing.T, k KnownGPUs) (next KnownGPUs) {
	t.Helper()
	r := hosttest.Root(t)
	require.NoError(t, k.Write(r))
	next, err := ReadKnown(r)
	require.NoError(t, err)
	return next
}

// A GPU that was chosen and went away is missing: it makes no option wrong, takes none of
// the others from tasks, and gives its number to none of them.
func TestChosenGPUThatIsGoneLeavesTheOthersToTasks(t *testing.T) {
	const idOf1 = "GPU-2f90ab16c8e7431d"
	for name, c := range map[string]struct {
		ids  string
		gone []int
		give []int  // slots that tasks get
		says string // part of the status
	}{
		"one of two":             {"0,1", []int{1}, []int{0}, "Ready (GPU: 1x AMD); 1 GPU fewer than before, gone: 0000:43:00.0; give them back, or go on without them: juju run concourse-ci-machine/0 accept-gpus"},
		"the first of two":       {"0,1", []int{0}, []int{1}, "Ready (GPU: 1x AMD); 1 GPU fewer"},
		"a number stays":         {"1", []int{0}, []int{1}, "Ready (GPU: 1x AMD); 1 GPU fewer"},
		"a range":                {"0-3", []int{1, 2}, []int{0, 3}, "Ready (GPU: 2x AMD); 2 GPUs fewer"},
		"an address":             {"0000:43:00.0,0000:83:00.0", []int{1}, []int{2}, "Ready (GPU: 1x AMD); 1 GPU fewer"},
		"a unique id":            {idOf1 + ",3", []int{1}, []int{3}, "Ready (GPU: 1x AMD); 1 GPU fewer"},
		"one that is not chosen": {"0,1", []int{3}, []int{0, 1}, "Ready (GPU: 2x AMD); 1 GPU fewer"},
		"all that were chosen":   {"0,2", []int{0, 2}, nil, "blocked: gpu-device-ids: the GPUs that it names are missing: 0000:23:00.0, 0000:83:00.0; give them back, or name others"},
		"none is gone":           {"0,1", nil, []int{0, 1}, "active: Ready (GPU: 2x AMD)"},
		"never there":            {"0,7", []int{1}, nil, `blocked: gpu-device-ids: "7" is not a GPU of this unit; it has 0, 1, 2, 3`},
		"never there, a range":   {"0-4", []int{1}, nil, `blocked: gpu-device-ids: "0-4" reaches beyond the GPUs of this unit; it has 0, 1, 2, 3`},
		"another address":        {"0000:99:00.0", []int{1}, nil, `blocked: gpu-device-ids: "0000:99:00.0" is not a GPU of this unit`},
	} {
		t.Run(name, func(t *testing.T) {
			var gone []string
			for _, i := range c.gone {
				gone = append(gone, slotsOf[i])
			}
			o := without(t, map[string]any{"gpu-device-ids": c.ids}, gone...)
			d := Desire(o, nil)
			require.Contains(t, text(status.Of("Ready"+d.Suffix, d.Causes)), c.says)
			require.Equal(t, o.Known, d.Known, "what is gone is missed until somebody says otherwise")
			w := wrapperOf(t, d)
			if c.give == nil {
				require.Empty(t, w.Devices)
				require.NotEmpty(t, w.Missing)
				return
			}
			var names []string
			for _, g := range w.Leases.GPUs {
				names = append(names, g.Name)
			}
			var want []string
			for _, i := range c.give {
				want = append(want, slotsOf[i])
			}
			require.Equal(t, want, names)
			require.Len(t, w.Devices, len(want))
			require.Empty(t, w.Missing)
			require.Equal(t, lease.DefaultDir, w.Leases.Dir)
		})
	}
}

// After accept-gpus the unit has what it has: numbers are counted again.
func TestAcceptedGPUsAreNumberedAgain(t *testing.T) {
	o := without(t, map[string]any{"gpu-device-ids": "2"}, slotsOf[0])
	require.Equal(t, slotsOf[2], wrapperOf(t, Desire(o, nil)).Leases.GPUs[0].Name)
	o.Known = KnownGPUs{}
	require.Equal(t, slotsOf[3], wrapperOf(t, Desire(o, nil)).Leases.GPUs[0].Name)
	o = without(t, map[string]any{"gpu-device-ids": "3"}, slotsOf[0])
	o.Known = KnownGPUs{}
	d := Desire(o, nil)
	require.Contains(t, text(status.Of("Ready"+d.Suffix, d.Causes)), `blocked: gpu-device-ids: "3" is not a GPU of this unit; it has 0, 1, 2`)
}

// Between hooks too: what the wrapper reads is written again without Juju.
func TestRefreshGivesTheOthersOfTheChosenGPUs(t *testing.T) {
	o := without(t, map[string]any{"gpu-device-ids": "0,1"}, slotsOf[1])
	d := Desired{}
	d.Resources = RefreshResources(o)
	require.Equal(t, slotsOf[0], wrapperOf(t, d).Leases.GPUs[0].Name)
}

// Each partition has a number, and all of a board have its address.
func TestMissingPartitionsKeepTheirNumbers(t *testing.T) {
	var all []gpu.GPU
	for _, pci := range []string{"0000:03:00.0", "0000:43:00.0"} {
		for p := range 4 {
			all = append(all, gpu.GPU{Vendor: gpu.AMD, PCI: pci, Partition: p})
		}
	}
	k, gone := KnownGPUs{}.update("rocm", all)
	require.Empty(t, gone)
	k = remembered(t, k)
	require.Len(t, k.PCI, 2)
	numbers := func(all []gpu.GPU) (list []string) {
		for _, g := range all {
			list = append(list, gpu.Slot(g.PCI, g.Partition))
		}
		return list
	}
	require.Equal(t, numbers(all), numbers(k.numbered("rocm", all)))
	require.Equal(t, numbers(all), numbers(k.numbered("rocm", all[4:])), "the first board is gone")
	require.Equal(t, numbers(all[4:]), numbers(k.numbered("auto", all[4:])), "known by another option")
	whole := []gpu.GPU{{Vendor: gpu.AMD, PCI: "0000:43:00.0"}, {Vendor: gpu.AMD, PCI: "0000:99:00.0"}}
	require.Equal(t, "0000:03:00.0 0000:03:00.0-1 0000:03:00.0-2 0000:03:00.0-3 0000:43:00.0 0000:99:00.0",
		strings.Join(numbers(KnownGPUs{Runtime: k.Runtime, PCI: append(slices.Clone(k.PCI), "0000:a3:00.0"), Each: k.Each}.numbered("rocm", whole)), " "),
		"one board is whole now, and another is new")
}

// A file of an earlier version has addresses only.
func TestKnownGPUsOfAnEarlierVersionAreNumberedByAddress(t *testing.T) {
	var k KnownGPUs
	require.NoError(t, json.Unmarshal([]byte(`{"compute-runtime":"rocm","gpus":["0000:03:00.0","0000:43:00.0"]}`), &k))
	require.Len(t, k.numbered("rocm", at("0000:43:00.0")), 2)
}

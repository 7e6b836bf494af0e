package gpurun

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// Machine holds the GPUs that runs can lease, with the leases of all holders.
type Machine struct {
	GPUs   []GPU // in the order of Leases.GPUs
	Leases lease.Leases
	// Others are the nodes of GPUs that no run gets.
	Others []rungroup.Device
}

// GPU describes one GPU that a run can lease.
type GPU struct {
	gpu.Slot
	Model   string
	Devices []rungroup.Device // its nodes
	// Order is its place among all GPUs of ROCm, which numbers them so.
	Order int
	// Total and Used are files of sysfs with the bytes of its memory.
	Total, Used string
	// Clocks is how its clocks are fixed, nil if they cannot be.
	Clocks *fixedclocks.Setting
}

// number returns a machine's GPU in texts.
func (g GPU) number() string { return strconv.Itoa(g.Index) }

// text describes the GPU in parentheses: "AMD Instinct MI210 gfx90a, 0000:23:00.0".
func (g GPU) text() string {
	return strings.TrimSpace(g.Model+" "+g.GFX) + ", " + g.Address()
}

// candidates returns the indexes of the GPUs that a request allows, and how many it wants.
func (m Machine) candidates(r Request) (of []int, count int, err error) {
	if of, err = m.named(r.IDs); err != nil {
		return nil, 0, err
	}
	named := len(of)
	unfixable := ""
	of = slices.DeleteFunc(of, func(i int) bool {
		g := m.GPUs[i]
		if r.Arch != "" && !strings.EqualFold(g.GFX, r.Arch) || r.Memory > 0 && readBytes(g.Total) < r.Memory {
			return true
		}
		why := ""
		if r.Bench {
			why = g.unfixable()
		}
		if why != "" && unfixable == "" {
			unfixable = "the clocks of GPU " + g.number() + " cannot be fixed: " + why
		}
		return why != ""
	})
	count = r.GPUs
	if len(r.IDs) > 0 {
		count = named
	}
	if count <= len(of) {
		return of, count, nil
	}
	if unfixable != "" {
		return nil, 0, fmt.Errorf("cannot lease %s with fixed clocks: %s; run it without --bench",
			units.Count(count, "GPU"), unfixable)
	}
	what := ""
	if r.Arch != "" {
		what += " of " + r.Arch
	}
	if r.Memory > 0 {
		what += " with " + units.Bytes(float64(r.Memory)) + " of memory"
	}
	switch {
	case len(m.GPUs) == 0:
		err = fmt.Errorf("cannot lease %s: this machine has no AMD GPU that a program can use; see gpukit gpu list",
			units.Count(count, "GPU"))
	case len(r.IDs) > 0:
		err = fmt.Errorf("cannot lease %s: %d of the named GPUs are%s", units.Count(count, "GPU"), len(of), what)
	default:
		err = fmt.Errorf("cannot lease %s%s: this machine has %d; see gpukit gpu list", units.Count(count, "GPU"),
			what, len(of))
	}
	return nil, 0, err
}

// unfixable returns why the clocks of a GPU cannot be fixed, "" if the driver may do it.
func (g GPU) unfixable() string {
	if g.Clocks == nil {
		return "it is not a whole GPU"
	}
	if err := g.Clocks.CheckWritable(); err != nil {
		return err.Error()
	}
	return ""
}

// named returns the GPUs with these names, all for none. The PCI address of a GPU with
// partitions names all of them.
func (m Machine) named(names []string) (of []int, err error) {
	for _, name := range names {
		found := false
		for i, g := range m.GPUs {
			if g.hasName(name) {
				found = true
				of = append(of, i)
			}
		}
		if !found {
			var numbers []string
			for _, g := range m.GPUs {
				numbers = append(numbers, g.number())
			}
			return nil, fmt.Errorf("cannot lease GPU %q: this machine has %s; see gpukit gpu list", CleanTitle(name),
				strings.Join(numbers, ", "))
		}
	}
	if names == nil {
		for i := range m.GPUs {
			of = append(of, i)
		}
	}
	slices.Sort(of)
	return slices.Compact(of), nil
}

func (g GPU) hasName(name string) bool {
	if name == g.number() || g.ID() != "" && strings.EqualFold(name, g.ID()) || name == g.Address() {
		return true
	}
	a, isAddress := pci.Parse(name)
	b, known := pci.Parse(g.PCI)
	return isAddress && known && strings.Contains(name, ":") && a == b
}

// readBytes reads a number in sysfs, and returns 0 if it cannot be read.
func readBytes(file string) uint64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n
}

// freeMemory returns why a GPU has less free memory than a request needs, "" if it has it. It
// asks the driver only for a request with a size.
func (g GPU) freeMemory(least uint64) string {
	if least == 0 {
		return ""
	}
	if total, used := readBytes(g.Total), readBytes(g.Used); total < used+least {
		return "has " + units.Bytes(float64(total-min(total, used))) + " of memory free"
	}
	return ""
}

// denied returns the nodes of all GPUs but these.
func (m Machine) denied(gpus []int) (all []rungroup.Device) {
	all = slices.Clone(m.Others)
	for i, g := range m.GPUs {
		if !slices.Contains(gpus, i) {
			all = append(all, g.Devices...)
		}
	}
	return all
}

// variables returns the environment in which ROCm's programs use the leased GPUs and no
// other. Programs of HIP and of CUDA's interface count within ROCR_VISIBLE_DEVICES. If the
// kernel hides the other GPUs, ROCm counts only the leased ones.
func (m Machine) variables(run string, gpus []int, limited bool) []string {
	var visible, numbers, named []string
	byOrder := slices.SortedFunc(slices.Values(gpus), func(a, b int) int { return m.GPUs[a].Order - m.GPUs[b].Order })
	for i, at := range byOrder {
		g := m.GPUs[at]
		numbers = append(numbers, strconv.Itoa(i))
		switch {
		case limited:
			visible = append(visible, strconv.Itoa(i))
		case g.ID() != "":
			visible = append(visible, g.ID())
		default:
			visible = append(visible, strconv.Itoa(g.Order))
		}
		if g.ID() != "" {
			named = append(named, g.ID())
		} else {
			named = append(named, g.number())
		}
	}
	hip := strings.Join(numbers, ",")
	return []string{"ROCR_VISIBLE_DEVICES=" + strings.Join(visible, ","), "HIP_VISIBLE_DEVICES=" + hip,
		"GPU_DEVICE_ORDINAL=" + hip, "CUDA_VISIBLE_DEVICES=" + hip,
		"AMD_VISIBLE_DEVICES=" + strings.Join(named, ","), Variable + "=" + run}
}

// Variable names the run in the environment of its command.
const Variable = "GPUKIT_RUN"

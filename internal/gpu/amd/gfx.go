package amd

import (
	"fmt"
	"slices"
	"strings"
)

// override maps an architecture without kernels in AMD's libraries to one with the same
// instruction set.
type override struct {
	gfx     string
	version string // value of HSA_OVERRIDE_GFX_VERSION: major.minor.step
	why     string
}

// overrides returns the whole table. With HSA_OVERRIDE_GFX_VERSION the ROCm runtime reports
// another architecture than the GPU's own. That is correct only between architectures with
// the same instructions: LLVM's AMDGPU usage guide groups them in the generic targets
// gfx9-generic, gfx10-3-generic and gfx11-generic.
func overrides() []override {
	return []override{
		{"gfx902", "9.0.0", "Raven, runs gfx900 kernels (gfx9-generic)"},
		{"gfx90c", "9.0.0", "Renoir and Cezanne, run gfx900 kernels (gfx9-generic)"},
		{"gfx1031", "10.3.0", "Navi 22, runs gfx1030 kernels (gfx10-3-generic)"},
		{"gfx1032", "10.3.0", "Navi 23, runs gfx1030 kernels (gfx10-3-generic)"},
		{"gfx1033", "10.3.0", "Van Gogh, runs gfx1030 kernels (gfx10-3-generic)"},
		{"gfx1034", "10.3.0", "Navi 24, runs gfx1030 kernels (gfx10-3-generic)"},
		{"gfx1035", "10.3.0", "Rembrandt, runs gfx1030 kernels (gfx10-3-generic)"},
		{"gfx1036", "10.3.0", "Raphael and Mendocino, run gfx1030 kernels (gfx10-3-generic)"},
		{"gfx1103", "11.0.0", "Phoenix and Hawk Point, run gfx1100 kernels (gfx11-generic)"},
	}
}

// OverrideGFX returns the HSA_OVERRIDE_GFX_VERSION that the architectures require, "" if
// they require none. The variable applies to all GPUs of a process, so GPUs that require
// different values are an error.
func OverrideGFX(gfx []string) (string, error) {
	values := map[string][]string{}
	var order []string
	for _, g := range gfx {
		v := ""
		if i := slices.IndexFunc(overrides(), func(o override) bool { return o.gfx == g }); i >= 0 {
			v = overrides()[i].version
		}
		if _, ok := values[v]; !ok {
			order = append(order, v)
		}
		values[v] = append(values[v], g)
	}
	switch len(order) {
	case 0:
		return "", nil
	case 1:
		return order[0], nil
	}
	return "", fmt.Errorf("task-env: HSA_OVERRIDE_GFX_VERSION=auto can't serve %s at once; set a value",
		strings.Join(Archs(gfx), " and "))
}

// HIPArches returns the build targets of tasks: the GPUs' architectures from the kernel. An
// unknown architecture is an error, because a build for a wrong guess fails late, or runs
// wrong.
func HIPArches(gfx []string) ([]string, error) {
	unknown := 0
	for _, g := range gfx {
		if g == "" {
			unknown++
		}
	}
	if unknown > 0 {
		return nil, fmt.Errorf("the kernel reports no architecture for %d of %d GPUs; add it to task-env, such as "+
			"HIP_ARCHES=gfx942", unknown, len(gfx))
	}
	return Archs(gfx), nil
}

// Archs returns each known architecture once, in order.
func Archs(gfx []string) (archs []string) {
	for _, g := range gfx {
		if g != "" && !slices.Contains(archs, g) {
			archs = append(archs, g)
		}
	}
	return archs
}

// Family is a line of AMD's GPUs with common drivers and support.
type Family string

// The families.
const (
	Instinct Family = "instinct" // data centre
	Radeon   Family = "radeon"   // graphics cards and workstation cards
	APU      Family = "apu"      // integrated into a processor
	Unknown  Family = ""         // missing in the table
)

// familyOf maps PCI device ids of vendor 1002 to families, by the names in pci.ids
// (github.com/pciutils/pciids): Instinct, the Navi chips of cards, the code names of
// processors. Virtual functions have the family of their GPU. Ids that pci.ids lacks are
// left out.
func familyOf(device uint16) Family {
	switch device {
	case 0x66a0, 0x66a1, // Vega 20: MI50, MI60
		0x7388, 0x738c, 0x738e, // Arcturus: MI100
		0x7408, 0x740c, 0x740f, // Aldebaran: MI250X, MI250, MI210
		0x74a0, 0x74a1, 0x74a2, 0x74a5, 0x74a9, // MI300A, MI300X, MI308X, MI325X, MI300X HF
		0x74b5, 0x74b9, 0x74bd, // virtual functions of MI300X, MI325X, MI300X HF
		0x75a0, 0x75a3, 0x75a8: // MI350X, MI355X, MI350P
		return Instinct
	case 0x73a1, 0x73a2, 0x73a3, 0x73a5, 0x73ab, 0x73ae, 0x73af, 0x73bf, // Navi 21
		0x73df,                 // Navi 22
		0x73e3, 0x73ef, 0x73ff, // Navi 23
		0x7422, 0x743f, // Navi 24
		0x7448, 0x7449, 0x744a, 0x744b, 0x744c, 0x745e, // Navi 31
		0x7460, 0x7461, 0x7470, 0x747e, // Navi 32
		0x7480, 0x7481, 0x7483, 0x7487, 0x7489, 0x748b, 0x7499, 0x749f, // Navi 33
		0x7550, 0x7551, // Navi 48
		0x7590: // Navi 44
		return Radeon
	case 0x15dd, 0x15d8, // Raven, Picasso
		0x1636, 0x1638, 0x164c, 0x15e7, // Renoir, Cezanne, Lucienne, Barcelo
		0x163f, 0x164d, 0x1681, // Van Gogh, Rembrandt
		0x164e, 0x1506, // Raphael, Mendocino
		0x15bf, 0x15c8, 0x1900, 0x1901, // Phoenix, Hawk Point
		0x150e, 0x1586, 0x1114, 0x13c0: // Strix, Strix Halo, Krackan, Granite Ridge
		return APU
	}
	return Unknown
}

// Home is the folder of ROCm in AMD's packages and images: a link to the version
// (https://rocm.docs.amd.com, "ROCm installation": /opt/rocm).
const Home = "/opt/rocm"

// TaskEnv returns the environment for tasks with Home in their image. Compilers, CMake and
// PyTorch's extension builder find ROCm through it. Variables of an image or a task have
// precedence.
func TaskEnv() map[string]string {
	return map[string]string{"ROCM_PATH": Home, "ROCM_HOME": Home, "HIP_PATH": Home, "LD_LIBRARY_PATH": Home + "/lib"}
}

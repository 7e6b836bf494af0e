package amd

import (
	"fmt"
	"slices"
	"strings"
)

// override is one architecture that AMD's libraries have no kernels for, and
// the one of the same instruction set whose kernels run on it.
type override struct {
	gfx     string
	version string // value of HSA_OVERRIDE_GFX_VERSION: major.minor.step
	why     string
}

// overrides is the whole table. HSA_OVERRIDE_GFX_VERSION makes the ROCm
// runtime report another architecture than the GPU's own; it is right only
// between architectures with the same instructions (LLVM's AMDGPU usage guide
// groups them in the generic targets gfx9-generic, gfx10-3-generic and
// gfx11-generic).
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

// OverrideGFX is the value of HSA_OVERRIDE_GFX_VERSION that the given
// architectures need, "" when they need none. The variable holds for all GPUs
// of a process, so a mix that needs different values is an error that says so.
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
	return "", fmt.Errorf("hsa-override-gfx-version: auto can't serve %s at once; choose GPUs of one kind with gpu-device-ids, or set a value", strings.Join(Archs(gfx), " and "))
}

// HIPArches is what tasks build for: what the operator says, else the GPUs'
// architectures as the kernel tells them. One that it does not tell is an error
// and never a guess: a build for another GPU fails late, or runs wrong.
func HIPArches(gfx, operator []string) ([]string, error) {
	if len(operator) > 0 {
		return operator, nil
	}
	unknown := 0
	for _, g := range gfx {
		if g == "" {
			unknown++
		}
	}
	if unknown > 0 {
		return nil, fmt.Errorf("hip-arches: the kernel does not tell the architecture of %d of the %d GPUs of tasks; set the option to what tasks shall build for, such as gfx942", unknown, len(gfx))
	}
	return Archs(gfx), nil
}

// Archs is each architecture once, in order; what is not known is left out.
func Archs(gfx []string) (archs []string) {
	for _, g := range gfx {
		if g != "" && !slices.Contains(archs, g) {
			archs = append(archs, g)
		}
	}
	return archs
}

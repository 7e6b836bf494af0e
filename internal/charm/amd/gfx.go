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

// Home is the folder of ROCm in AMD's packages and images: a link to the version
// (https://rocm.docs.amd.com, "ROCm installation": /opt/rocm).
const Home = "/opt/rocm"

// TaskEnv returns the environment for tasks with Home in their image. Compilers, CMake and
// PyTorch's extension builder find ROCm through it. Variables of an image or a task have
// precedence.
func TaskEnv() map[string]string {
	return map[string]string{"ROCM_PATH": Home, "ROCM_HOME": Home, "HIP_PATH": Home, "LD_LIBRARY_PATH": Home + "/lib"}
}

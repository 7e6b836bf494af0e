package amd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// usecases are the names that amdgpu-install --usecase takes, and the
// meta-packages of repo.radeon.com/rocm/apt that they stand for: AMD's page
// "Package manager integration" and the use case column of its native
// installation. What needs AMD's graphics repository is left out.
var usecases = map[string]string{
	"rocm":         "rocm",
	"lrt":          "rocm-language-runtime",
	"hip":          "rocm-hip-runtime",
	"hiplibsdk":    "rocm-hip-sdk",
	"opencl":       "rocm-opencl-runtime",
	"openclsdk":    "rocm-opencl-sdk",
	"openmpsdk":    "rocm-openmp-sdk",
	"mllib":        "rocm-ml-libraries",
	"mlsdk":        "rocm-ml-sdk",
	"rocmdevtools": "rocm-developer-tools",
}

// Usecases are the use cases that can be installed, sorted.
func Usecases() []string { return slices.Sorted(maps.Keys(usecases)) }

// usecasePackages are the packages of use cases, in their order. It skips dkms:
// that is the driver, which install-driver decides on.
func usecasePackages(names []string) ([]string, error) {
	var packages []string
	for _, n := range names {
		if n == "dkms" { // the driver is decided on by itself
			continue
		}
		p, ok := usecases[n]
		if !ok {
			return nil, fmt.Errorf("use case %q is not one of %s", n, strings.Join(Usecases(), ", "))
		}
		if !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}
	return packages, nil
}

package config

import (
	"fmt"
	"regexp"
	"strings"
)

// gigabyte is what disks and memory are sold in.
const gigabyte = 1_000_000_000

// usecases are those of AMD's packages that are user space without a desktop.
// dkms is the kernel driver, which install-driver decides on.
var usecases = []string{"rocm", "rocmdevtools", "lrt", "hip", "hiplibsdk", "opencl", "openclsdk", "openmpsdk", "mllib", "mlsdk"}

func usecase(s string) error {
	if s == "dkms" {
		return fmt.Errorf("%q is the kernel driver: set install-driver=always instead", s)
	}
	return oneOf(s, usecases...)
}

func rocmVersion(s string) error {
	if s != "" && !versionForm.MatchString(s) {
		return fmt.Errorf("%q is not empty or a version like 7.2.3; the action rocm-matrix lists them", s)
	}
	return nil
}

var moduleParam = regexp.MustCompile(`^[a-z][a-z0-9_]*=[A-Za-z0-9_.,:;+-]+$`)

// moduleParams are name=value words for one line of modprobe.d(5), which has
// no quotes: one space between two.
func moduleParams(s string) (string, error) {
	words := strings.Fields(s)
	for _, w := range words {
		if !moduleParam.MatchString(w) {
			return "", fmt.Errorf("%q is not a parameter of amdgpu like gpu_recovery=1; modinfo -p amdgpu lists them", w)
		}
	}
	return strings.Join(words, " "), nil
}

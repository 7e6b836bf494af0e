package deviceplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Values of --resource-naming-strategy, which are those of AMD's own device plugin.
const (
	single = "single" // all under amd.com/gpu
	mixed  = "mixed"  // partitions under a name of their style, such as amd.com/cpx_nps4
)

const (
	vendorPrefix = "amd.com/"
	wholeGPU     = vendorPrefix + "gpu"
)

// resources sorts devices by the name under which pods ask for them. Under one name a pod
// can't choose between partitions of different size, so that is refused.
func resources(strategy string, devices []device) (map[string][]device, error) {
	styles := map[string][]device{}
	for _, d := range devices {
		if d.style != "" {
			styles[d.style] = append(styles[d.style], d)
		}
	}
	if strategy == single {
		if len(styles) > 1 {
			return map[string][]device{wholeGPU: nil}, fmt.Errorf("cannot offer GPUs as %s: they are partitioned as %s; partition them alike, or start with --resource-naming-strategy=%s",
				wholeGPU, strings.Join(slices.Sorted(maps.Keys(styles)), " and "), mixed)
		}
		return map[string][]device{wholeGPU: devices}, nil
	}
	of := map[string][]device{}
	for _, d := range devices {
		name := wholeGPU
		if d.style != "" {
			name = vendorPrefix + d.style
		}
		of[name] = append(of[name], d)
	}
	return of, nil
}

// isOurs reports whether pods get GPUs under this name by one of the strategies, or by
// AMD's plugin.
func isOurs(resource string) bool { return strings.HasPrefix(resource, vendorPrefix) }

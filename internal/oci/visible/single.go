package visible

import "concourse-ci-machine/internal/gpu/cdispec"

// GPU is one of the GPUs that a container gets.
type GPU struct {
	cdispec.Device
	// IDs are its names in the spec that are no index, such as GPU-<unique id>.
	IDs []string
}

// Single are the single GPUs behind devices, each once, in the order of their spec.
func Single(specs []*cdispec.Spec, devices []cdispec.Device) ([]GPU, error) {
	of, err := unitGPUs(specs, devices)
	gpus := make([]GPU, len(of))
	for i, g := range of {
		gpus[i].Device = g.Device
		for _, name := range g.names {
			if !isDecimal(name) {
				gpus[i].IDs = append(gpus[i].IDs, name)
			}
		}
	}
	return gpus, err
}

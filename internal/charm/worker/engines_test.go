package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/oci/engines"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// enginesOf is what a unit has in other engines.
func enginesOf(d Desired) (found []engines.Unit) {
	for _, r := range d.Resources {
		if u, is := r.(engines.Unit); is {
			found = append(found, u)
		}
	}
	return found
}

func TestOtherEnginesGetTheUnitsGPUsByOption(t *testing.T) {
	for name, c := range map[string]struct {
		host, runtime, option string
		want                  []string
		containers            string
	}{
		"no option":       {"amd", "rocm", "", nil, oci.Tasks},
		"two":             {"amd", "rocm", "docker,podman", []string{"docker", "podman"}, oci.Asked},
		"no GPU":          {"no-gpu", "auto", "docker", nil, oci.Tasks},
		"NVIDIA's GPUs":   {"nvidia-only", "cuda", "docker", nil, oci.Tasks},
		"tasks get none":  {"amd", "none", "docker", nil, oci.Tasks},
		"another vendors": {"both-passed", "rocm", "podman", []string{"podman"}, oci.Asked},
	} {
		d := Desire(observed(t, hosttest.Host(t, c.host), map[string]any{"compute-runtime": c.runtime, "container-engines": c.option}), nil)
		found := enginesOf(d)
		require.Len(t, found, 1, name)
		require.Equal(t, engines.Unit{Engines: c.want, Wrapper: "/opt/concourse-ci-machine/engines/runc-amd-wrapper"}, found[0], name)
		require.Equal(t, c.containers, wrapperOf(t, d).Containers, name)
	}
}

// The option may be all that config knows and engines does.
func TestOptionNamesTheEnginesThatAreKnown(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Host(t, "amd"))
	for _, name := range engines.Names() {
		o := observed(t, h.Root, map[string]any{"compute-runtime": "rocm", "container-engines": name})
		require.Equal(t, []string{name}, o.Config.ContainerEngines)
	}
	p, err := engines.Unit{Wrapper: enginesWrapper}.Diff(context.Background(), h)
	require.NoError(t, err)
	require.Empty(t, p, "a unit without the option asks nobody")
}

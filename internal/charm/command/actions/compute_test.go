package actions

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A GPU on which no program can compute is critical everywhere: on the page, in the API, the
// metrics and the commands.
func TestGPUThatCannotComputeIsCriticalEverywhere(t *testing.T) {
	const nodes = "/sys/class/kfd/kfd/topology/nodes/"
	remove := func(names ...string) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) {
			for _, name := range names {
				require.NoError(t, os.RemoveAll(r.Path(name)))
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, host.Root)
		why    string
	}{
		"no /dev/kfd": {remove("/dev/kfd"), "no /dev/kfd (run: sudo modprobe amdgpu; in a container, pass /dev/kfd to it)"},
		"another driver's /dev/kfd": {func(t *testing.T, r host.Root) { hosttest.Put(t, r, "/proc/devices", "Character devices:\n238 kfd\n") },
			"/dev/kfd is 235:0, but the kernel's kfd driver has major 238 (its number is of another boot; restart the container, or pass /dev/kfd to it again)"},
		"no node in KFD, beside nodes of other GPUs": {func(t *testing.T, r host.Root) {
			remove(nodes+"1")(t, r)
			require.NoError(t, os.MkdirAll(r.Path(nodes+"2/properties"), 0o755)) // rejects a reading
			hosttest.Put(t, r, nodes+"3/properties", "drm_render_minor 130\nlocation_id 17152\n")
		}, "the kernel's KFD does not list it (see: sudo dmesg | grep kfd; in a container, pass the GPU to it again)"},
		"a node in KFD that this machine may not read": {func(t *testing.T, r host.Root) {
			remove(nodes+"1/properties")(t, r)
			require.NoError(t, os.Mkdir(r.Path(nodes+"1/properties"), 0o755)) // rejects a reading
			hosttest.Put(t, r, nodes+"2/properties", "drm_render_minor 130\nlocation_id 17152\n")
		}, "the kernel's KFD does not list it (see: sudo dmesg | grep kfd; in a container, pass the GPU to it again)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "amd")
			m := monitor.New(r, monitor.All(r), monitor.Options{Now: hosttest.Clock{T: hosttest.Now}.Now})
			s := httptest.NewServer(exporter.Handler(&exporter.Source{Root: r, Version: "test", Monitor: m}, exporter.MetricOptions{}))
			defer s.Close()
			get := func(path string) string {
				resp, err := http.Get(s.URL + path)
				require.NoError(t, err)
				defer resp.Body.Close()
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				return string(data)
			}
			require.Contains(t, get("/metrics"), `rocm_gpu_can_compute{gpu="0",pci_bus_id="0000:03:00.0",uuid="GPU-4be2f10c93d57a68"} 1`)
			c.change(t, r)
			const reason = "no program can compute on it: "

			var all api.Report
			require.NoError(t, json.Unmarshal([]byte(get("/api/v1/gpus")), &all))
			require.Equal(t, health.Critical, all.GPUs[0].Health.State)
			require.Equal(t, new(0.0), all.GPUs[0].Health.Score)
			require.Equal(t, reason+c.why, all.GPUs[0].Health.Reason)
			require.Empty(t, all.GPUs[0].Health.Codes)
			metrics := get("/metrics")
			for _, metric := range []string{"rocm_gpu_can_compute", "rocm_gpu_healthy", "rocm_gpu_health_score"} {
				require.Contains(t, metrics, metric+`{gpu="0",pci_bus_id="0000:03:00.0",uuid="GPU-4be2f10c93d57a68"} 0`)
			}
			page := get("/")
			require.Contains(t, page, "✕ critical <small>0 of 100</small>")
			require.Contains(t, page, reason)

			a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, r), ExporterURL: s.URL + "/api/v1/gpus"}}
			for range 2 { // without and with the owner's record
				var text strings.Builder
				require.ErrorContains(t, a.GPUHealth(t.Context(), &text, term.Format{}), "cannot rely on 1 of 1 GPUs: GPU 0: "+reason+c.why)
				require.Contains(t, text.String(), "critical    0")
				text.Reset()
				require.NoError(t, a.ListGPUs(t.Context(), &text, term.Format{}))
				require.Contains(t, text.String(), "critical")
				text.Reset()
				require.NoError(t, a.GPUTop(t.Context(), &text, term.Format{}, Top{}))
				require.Contains(t, text.String(), "GPU 0 is critical: "+reason)
				require.NoError(t, m.WriteReport(role.GPUReport))
			}
		})
	}
}

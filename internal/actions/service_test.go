package actions

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/exporter"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpuservice"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/term"
)

// served is a unit whose GPUs a real exporter watches, which begins anew at each look:
// one that runs reads error counters beside its answers, some time later.
func served(t *testing.T, hostName string) *Actions {
	t.Helper()
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, hostName))}}
	watchedBy(t, c)
	return c
}

// watchedBy gives the unit such an exporter.
func watchedBy(t *testing.T, c *Actions) {
	t.Helper()
	h := c.Host
	const gpu3 = "/sys/bus/pci/devices/0000:c3:00.0/" // the fixture's is sick
	hosttest.Put(t, h.Root, gpu3+"ras/umc_err_count", "ue: 0\nce: 0\n")
	hosttest.Put(t, h.Root, gpu3+"ras/gpu_vram_bad_pages", "")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := monitor.New(h.Root, monitor.AMD(h.Root), monitor.Options{})
		exporter.Handler(&exporter.Source{Root: h.Root, Monitor: m}, exporter.Shown{}).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	c.ExporterURL = s.URL + "/api/v1/gpus"
}

// after is the unit a time later.
func (c *Actions) after(d time.Duration) {
	c.Host.Clock = hosttest.Clock{T: c.Host.Now().Add(d)}
}

func watched(t *testing.T, c *Actions) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, c.WatchGPUs(t.Context(), &b))
	return b.String()
}

func withheldNow(t *testing.T, r host.Root) string {
	t.Helper()
	data, err := r.ReadFile(gpuservice.WithheldFile)
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
		return ""
	}
	st, err := r.Stat(gpuservice.WithheldFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o644, st.Mode().Perm())
	return string(data)
}

const ueFile = "/sys/bus/pci/devices/0000:43:00.0/ras/umc_err_count"

// From an error in sysfs to what the wrapper reads, in one look; and back.
func TestSickGPUIsWithheldAtTheFirstLook(t *testing.T) {
	c := served(t, "mi210x4")
	require.Contains(t, watched(t, c), "GPU 1 (0000:43:00.0): in_service: seen first\n")
	require.Empty(t, withheldNow(t, c.Host.Root))
	var status bytes.Buffer
	require.NoError(t, c.GPUStatus(&status, term.Format{}))
	require.Equal(t, "gpu-sharing=shared: GPUs are not leased\n", status.String())

	before, err := c.Host.ReadFile(ueFile)
	require.NoError(t, err)
	c.after(15 * time.Second)
	hosttest.Put(t, c.Host.Root, ueFile, "ue: 1\nce: 0\n")
	require.Equal(t, "GPU 1 (0000:43:00.0): withheld: 1 uncorrectable error\n", watched(t, c))
	since := c.Host.Now().UTC().Format("2006-01-02 15:04:05 UTC")
	require.Equal(t, `{"gpus":[{"name":"0000:43:00.0","why":"is withheld since `+since+`: 1 uncorrectable error"}]}`+"\n", withheldNow(t, c.Host.Root))
	c.after(15 * time.Second)
	require.Empty(t, watched(t, c), "nothing new")

	status.Reset()
	require.NoError(t, c.GPUStatus(&status, term.Format{}))
	require.Regexp(t, `^gpu-sharing=shared: GPUs are not leased\nwithheld: GPU 1 \(GPU-\w+, 0000:43:00.0\) is withheld since `+since+`: 1 uncorrectable error\n      at the last look: 1 uncorrectable error\n$`, status.String())
	status.Reset()
	require.NoError(t, c.GPUStatus(&status, term.Format{JSON: true}))
	require.Contains(t, status.String(), `"state": "withheld"`)
	status.Reset()
	require.NoError(t, c.ListGPUs(t.Context(), &status, false))
	require.Contains(t, status.String(), "     is withheld since "+since+": 1 uncorrectable error\n")
	status.Reset()
	require.NoError(t, c.ListGPUs(t.Context(), &status, true))
	require.Contains(t, status.String(), `"service": "withheld"`)

	hosttest.Put(t, c.Host.Root, ueFile, string(before))
	for range 21 {
		c.after(15 * time.Second)
		watched(t, c)
	}
	require.Empty(t, withheldNow(t, c.Host.Root), "well for five minutes")
}

// What is unknown is not unhealthy, and no reason to give back what is sick.
func TestSilentExporterChangesNothing(t *testing.T) {
	c := served(t, "mi210x4")
	hosttest.Put(t, c.Host.Root, ueFile, "ue: 1\nce: 0\n")
	watched(t, c)
	withheld := withheldNow(t, c.Host.Root)
	require.NotEmpty(t, withheld)
	c.ExporterURL = exporterOf(t, 500, "")
	for range 100 {
		c.after(15 * time.Second)
		require.Empty(t, watched(t, c))
	}
	require.Equal(t, withheld, withheldNow(t, c.Host.Root))
	r, err := gpuservice.Read(c.Host.Root)
	require.NoError(t, err)
	require.Equal(t, "the exporter answers 500", r.Unknown)
}

func TestDamagedFilesAreMadeAnew(t *testing.T) {
	c := served(t, "mi210x4")
	hosttest.Put(t, c.Host.Root, ueFile, "ue: 1\nce: 0\n")
	watched(t, c)
	want := withheldNow(t, c.Host.Root)
	for _, path := range []string{gpuservice.WithheldFile, gpuservice.File} {
		hosttest.Put(t, c.Host.Root, path, "{")
		watched(t, c)
		require.Equal(t, want, withheldNow(t, c.Host.Root))
		_, err := gpuservice.Read(c.Host.Root)
		require.NoError(t, err)
	}
}

func TestOptionIsThatOfTheLastHook(t *testing.T) {
	c := served(t, "mi210x4")
	set := func(value string) {
		require.NoError(t, model.Save(c.Host.Root, model.Facts{}, model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole,
			Config: map[string]any{"mode": "worker", "gpu-quarantine": value}}))
		c.after(15 * time.Second)
		watched(t, c)
	}
	hosttest.Put(t, c.Host.Root, ueFile, "ue: 1\nce: 0\n")
	watched(t, c)
	require.NotEmpty(t, withheldNow(t, c.Host.Root))
	set("of")
	require.NotEmpty(t, withheldNow(t, c.Host.Root), "a wrong value is none")
	set("off")
	require.Empty(t, withheldNow(t, c.Host.Root))
	require.EqualError(t, c.GPUWithhold(nil, "0", "x"), "cannot withhold a GPU: gpu-quarantine=off; set it to manual or auto first")
	set("manual")
	require.Empty(t, withheldNow(t, c.Host.Root))
	require.NoError(t, c.GPUWithhold(&bytes.Buffer{}, "0", "x"))
	require.Contains(t, withheldNow(t, c.Host.Root), "by hand: x")
}

func TestPersonsWithholdAndReturn(t *testing.T) {
	c := served(t, "mi210x4")
	require.EqualError(t, c.GPUWithhold(nil, "0", "x"), `cannot withhold GPU "0": no AMD GPU of this unit is watched yet; see juju status`)
	watched(t, c)
	var b bytes.Buffer
	require.NoError(t, c.GPUWithhold(&b, "0000:43:00.0", "swap the riser"))
	require.Regexp(t, `^GPU 1 \(GPU-\w+, 0000:43:00.0\) is withheld: no new container gets it; one that has it keeps it. gpu-return gives it back. Tags`, b.String())
	require.Contains(t, withheldNow(t, c.Host.Root), "by hand: swap the riser", "at once, without a look")
	require.ErrorContains(t, c.GPUWithhold(nil, "9", "x"), `cannot withhold GPU "9": this unit has 0 (GPU-`)
	require.ErrorContains(t, c.GPUReturn(nil, "0"), "cannot return GPU 0: it is in service since ")

	hosttest.Put(t, c.Host.Root, ueFile, "ue: 2\nce: 0\n")
	c.after(15 * time.Second)
	watched(t, c)
	b.Reset()
	require.NoError(t, c.GPUReturn(&b, "1"))
	require.Contains(t, b.String(), "is in service again, though this stands: 2 uncorrectable errors. It is not withheld for that any more; for anything new it is.")
	c.after(15 * time.Second)
	watched(t, c)
	require.Empty(t, withheldNow(t, c.Host.Root), "acknowledged")
	hosttest.Put(t, c.Host.Root, ueFile, "ue: 3\nce: 0\n")
	c.after(15 * time.Second)
	watched(t, c)
	require.NotEmpty(t, withheldNow(t, c.Host.Root), "one more")
}

func TestActionsWithholdAndReturn(t *testing.T) {
	watchedUnit := func(c *Actions) {
		from := served(t, "mi210x4")
		watched(t, from)
		data, err := from.Host.ReadFile(gpuservice.File)
		require.NoError(t, err)
		hosttest.Put(t, c.Host.Root, gpuservice.File, string(data))
		require.NoError(t, c.Host.MkdirAll("/run", 0o755))
	}
	a := acted(t, "mi210x4", "gpu-withhold", map[string]any{"gpu": 0, "reason": "noisy fan"}, watchedUnit)
	require.Equal(t, "completed", a.Status, a.Message)
	require.Contains(t, a.Results["withheld"], "is withheld: no new container gets it")
	for params, want := range map[string]string{
		`{"reason":"x"}`:          "give gpu=<gpu>, as list-gpus shows it",
		`{"gpu":0}`:               "cannot withhold a GPU without a reason",
		`{"gpu":7,"reason":"x"}`:  `cannot withhold GPU "7": this unit has`,
		`{"gpu":0,"because":"x"}`: "takes gpu, reason; nothing was done",
	} {
		var given map[string]any
		require.NoError(t, json.Unmarshal([]byte(params), &given))
		a = acted(t, "mi210x4", "gpu-withhold", given, watchedUnit)
		require.Equal(t, "failed", a.Status)
		require.Contains(t, a.Message, want)
	}
	a = acted(t, "mi210x4", "gpu-return", nil, watchedUnit)
	require.Contains(t, a.Message, "give gpu=<gpu>, as gpu-status shows it")
	a = acted(t, "mi210x4", "gpu-return", map[string]any{"gpu": "0"}, watchedUnit)
	require.Contains(t, a.Message, "it is in service since")
}

func TestMetricsTellOfWithheldGPUs(t *testing.T) {
	c := served(t, "mi210x4")
	watched(t, c)
	require.NoError(t, c.GPUWithhold(&bytes.Buffer{}, "1", "x"))
	m := monitor.New(c.Host.Root, monitor.AMD(c.Host.Root), monitor.Options{Service: gpuservice.File, Now: func() time.Time { return c.Host.Now().Add(90 * time.Second) }})
	w := httptest.NewRecorder()
	exporter.Handler(&exporter.Source{Root: c.Host.Root, Monitor: m}, exporter.Shown{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`rocm_gpu_service_state{gpu="0",pci_bus_id="0000:23:00.0",state="in_service",`, `rocm_gpu_service_state{gpu="1",pci_bus_id="0000:43:00.0",state="withheld",`,
		"rocm_exporter_service_report_age_seconds 90\n",
	} {
		require.Contains(t, w.Body.String(), line)
	}
	require.Regexp(t, `rocm_gpu_withheld_seconds_total\{gpu="1",pci_bus_id="0000:43:00.0",uuid="[^"]*"\} 90\n`, w.Body.String())
	require.NoError(t, oci.CheckConfig([]byte(`{"runtime":"/r","withheld":{"file":"`+gpuservice.WithheldFile+`"}}`)))
}

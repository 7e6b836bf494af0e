package watcher

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/notice"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// owners has the owner of the GPUs of each *Unit. It reads them before each look.
var owners sync.Map

func served(t *testing.T, hostName string) *Unit {
	t.Helper()
	u := &Unit{Host: hosttest.Quiet(t, hosttest.Host(t, hostName))}
	watchedBy(t, u)
	return u
}

// watchedBy gives the unit a real owner of its GPUs that restarts for each look. A running
// one reads error counters only some time after its readings.
func watchedBy(t *testing.T, u *Unit) {
	t.Helper()
	r := u.Host.Root
	const gpu3 = "/sys/bus/pci/devices/0000:c3:00.0/" // the fixture's is sick
	hosttest.Put(t, r, gpu3+"ras/umc_err_count", "ue: 0\nce: 0\n")
	hosttest.Put(t, r, gpu3+"ras/gpu_vram_bad_pages", "")
	require.NoError(t, r.MkdirAll("/run", 0o755))
	owners.Store(u, func() {
		m := monitor.New(r, monitor.All(r), monitor.Options{Now: u.Host.Now})
		require.NoError(t, m.WriteReport(role.GPUReport))
	})
}

// reported makes a report of these GPUs the one before each look.
func reported(t *testing.T, u *Unit, gpus string) {
	t.Helper()
	var report api.Report
	require.NoError(t, json.Unmarshal([]byte(gpus), &report))
	owners.Store(u, func() {
		report.Time = u.Host.Now()
		require.NoError(t, api.File(role.GPUReport).Write(u.Host.Root, report))
	})
}

// look looks after its owner has read the GPUs.
func look(t *testing.T, u *Unit, w io.Writer) error {
	if read, ok := owners.Load(u); ok {
		read.(func())()
	}
	return u.Look(t.Context(), w)
}

// after advances the unit's clock.
func (u *Unit) after(d time.Duration) {
	u.Host.Clock = hosttest.Clock{T: u.Host.Now().Add(d)}
}

func watched(t *testing.T, u *Unit) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, look(t, u, &b))
	return b.String()
}

func quarantinedNow(t *testing.T, r host.Root) string {
	t.Helper()
	data, err := r.ReadFile(quarantine.AdmissionFile)
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
		return ""
	}
	st, err := r.Stat(quarantine.AdmissionFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o644, st.Mode().Perm())
	return string(data)
}

const ueFile = "/sys/bus/pci/devices/0000:43:00.0/ras/umc_err_count"

// From an error in sysfs to the wrapper's file in one look, and back.
func TestFaultyGPUIsQuarantinedAtTheFirstLook(t *testing.T) {
	u := served(t, "mi210x4")
	require.Contains(t, watched(t, u), "GPU 1 (0000:43:00.0): in service: seen first\n")
	require.Empty(t, quarantinedNow(t, u.Host.Root))
	var status bytes.Buffer
	require.NoError(t, u.Status(&status, term.Format{}))
	require.Equal(t, "gpu-sharing=shared: GPUs are not leased\n", status.String())

	before, err := u.Host.ReadFile(ueFile)
	require.NoError(t, err)
	u.after(15 * time.Second)
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 1\nce: 0\n")
	require.Equal(t, "GPU 1 (0000:43:00.0): quarantined: 1 uncorrectable error\n", watched(t, u))
	since := u.Host.Now().UTC().Format("2006-01-02 15:04:05 UTC")
	require.Equal(t, `{"format_version":1,"gpus":[{"name":"0000:43:00.0","reason":"has been quarantined since `+since+`: 1 uncorrectable error"}]}`+"\n", quarantinedNow(t, u.Host.Root))
	u.after(15 * time.Second)
	require.Empty(t, watched(t, u), "nothing new")

	status.Reset()
	require.NoError(t, u.Status(&status, term.Format{}))
	require.Regexp(t, `^gpu-sharing=shared: GPUs are not leased\nquarantined: GPU 1 \(GPU-\w+, 0000:43:00.0\) has been quarantined since `+since+`: 1 uncorrectable error\n      at the last look: 1 uncorrectable error\n$`, status.String())
	status.Reset()
	require.NoError(t, u.Status(&status, term.Format{JSON: true}))
	require.Contains(t, status.String(), `"state": "quarantined"`)

	hosttest.Put(t, u.Host.Root, ueFile, string(before))
	for range 21 {
		u.after(15 * time.Second)
		watched(t, u)
	}
	require.Empty(t, quarantinedNow(t, u.Host.Root), "healthy for five minutes")
}

// An unknown state is not a fault, and does not end a quarantine.
func TestGPUsThatNobodyReadsKeepTheirState(t *testing.T) {
	u := served(t, "mi210x4")
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 1\nce: 0\n")
	watched(t, u)
	quarantined := quarantinedNow(t, u.Host.Root)
	require.NotEmpty(t, quarantined)
	owners.Delete(u)
	u.after(time.Minute)
	for range 100 {
		u.after(15 * time.Second)
		require.Empty(t, watched(t, u))
	}
	require.Equal(t, quarantined, quarantinedNow(t, u.Host.Root))
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	require.NoError(t, err)
	require.Equal(t, "the last reading of the GPUs is of 2026-01-02 03:04:05 UTC", r.Unknown)
	require.NoError(t, u.Host.Remove(role.GPUReport))
	watched(t, u)
	r, err = quarantine.RecordFile.Read(u.Host.Root)
	require.NoError(t, err)
	require.Equal(t, "the GPUs were not read yet", r.Unknown)
}

func TestDamagedFilesAreRecreated(t *testing.T) {
	u := served(t, "mi210x4")
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 1\nce: 0\n")
	watched(t, u)
	want := quarantinedNow(t, u.Host.Root)
	for _, path := range []string{quarantine.AdmissionFile, quarantine.File} {
		hosttest.Put(t, u.Host.Root, path, "{")
		watched(t, u)
		require.Equal(t, want, quarantinedNow(t, u.Host.Root))
		_, err := quarantine.RecordFile.Read(u.Host.Root)
		require.NoError(t, err)
	}
}

func TestOptionsAreFromTheLastHook(t *testing.T) {
	u := served(t, "mi210x4")
	set := func(value string) {
		require.NoError(t, model.Save(u.Host.Root, model.Facts{}, model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole,
			Config: map[string]any{"mode": "worker", "gpu-quarantine": value}}))
		u.after(15 * time.Second)
		watched(t, u)
	}
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 1\nce: 0\n")
	watched(t, u)
	require.NotEmpty(t, quarantinedNow(t, u.Host.Root))
	set("of")
	require.NotEmpty(t, quarantinedNow(t, u.Host.Root), "a wrong value is none")
	set("off")
	require.Empty(t, quarantinedNow(t, u.Host.Root))
	require.EqualError(t, u.Quarantine(nil, "0", "x"), "cannot quarantine a GPU: gpu-quarantine=off; set it to manual or auto first")
	set("manual")
	require.Empty(t, quarantinedNow(t, u.Host.Root))
	require.NoError(t, u.Quarantine(&bytes.Buffer{}, "0", "x"))
	require.Contains(t, quarantinedNow(t, u.Host.Root), "by hand: x")
}

func TestManualQuarantineAndReturn(t *testing.T) {
	u := served(t, "mi210x4")
	require.EqualError(t, u.Quarantine(nil, "0", "x"), `cannot quarantine GPU "0": no AMD GPU of this unit is watched yet; see juju status`)
	watched(t, u)
	var b bytes.Buffer
	require.NoError(t, u.Quarantine(&b, "0000:43:00.0", "swap the riser"))
	require.Regexp(t, `^GPU 1 \(GPU-\w+, 0000:43:00.0\) is quarantined: no new container gets it; one that has it keeps it. return-gpu gives it back. The status`, b.String())
	require.Contains(t, quarantinedNow(t, u.Host.Root), "by hand: swap the riser", "at once, without a look")
	require.ErrorContains(t, u.Quarantine(nil, "9", "x"), `cannot quarantine GPU "9": this unit has 0 (GPU-`)
	require.ErrorContains(t, u.Return(nil, "0"), "cannot return GPU 0: it has been in service since ")

	hosttest.Put(t, u.Host.Root, ueFile, "ue: 2\nce: 0\n")
	u.after(15 * time.Second)
	watched(t, u)
	b.Reset()
	require.NoError(t, u.Return(&b, "1"))
	require.Contains(t, b.String(), "is in service again; its present fault (2 uncorrectable errors) is now ignored, a new one is not.")
	u.after(15 * time.Second)
	watched(t, u)
	require.Empty(t, quarantinedNow(t, u.Host.Root), "acknowledged")
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 3\nce: 0\n")
	u.after(15 * time.Second)
	watched(t, u)
	require.NotEmpty(t, quarantinedNow(t, u.Host.Root), "one more")
}

func TestMetricsShowQuarantinedGPUs(t *testing.T) {
	u := served(t, "mi210x4")
	watched(t, u)
	require.NoError(t, u.Quarantine(&bytes.Buffer{}, "1", "x"))
	m := monitor.New(u.Host.Root, monitor.All(u.Host.Root), monitor.Options{Service: quarantine.File, Now: func() time.Time { return u.Host.Now().Add(90 * time.Second) }})
	w := httptest.NewRecorder()
	exporter.Handler(&exporter.Source{Root: u.Host.Root, Monitor: m}, exporter.MetricOptions{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`rocm_gpu_service_state{gpu="0",pci_bus_id="0000:23:00.0",state="in_service",`, `rocm_gpu_service_state{gpu="1",pci_bus_id="0000:43:00.0",state="quarantined",`,
		"rocm_exporter_service_report_age_seconds 90\n",
	} {
		require.Contains(t, w.Body.String(), line)
	}
	require.Regexp(t, `rocm_gpu_quarantine_seconds_total\{gpu="1",pci_bus_id="0000:43:00.0",uuid="[^"]*"\} 90\n`, w.Body.String())
}

// A pipe in the place of a state file does not block a look. The look recreates its files.
func TestPipeInPlaceOfAStateFileDoesNotHangALook(t *testing.T) {
	for file, c := range map[string]struct{ again, fails bool }{
		quarantine.File:          {again: true},
		notice.File:              {},
		model.FactsFile:          {},
		quarantine.AdmissionFile: {again: true},
		quarantine.EvidenceFile:  {},
		oci.DefaultConfig:        {fails: true},
	} {
		t.Run(file, func(t *testing.T) {
			u := served(t, "mi210x4")
			watched(t, u)
			require.NoError(t, u.Quarantine(io.Discard, "0", "a fan"))
			require.NoError(t, u.Host.Remove(file))
			require.NoError(t, u.Host.MkdirAll(path.Dir(file), 0o755))
			require.NoError(t, unix.Mkfifo(u.Host.Path(file), 0o600))
			err := look(t, u, io.Discard)
			if c.fails {
				require.ErrorContains(t, err, "not a regular file")
				return
			}
			require.NoError(t, err)
			if st, err := u.Host.Lstat(file); c.again {
				require.NoError(t, err)
				require.True(t, st.Mode().IsRegular())
			}
		})
	}
}

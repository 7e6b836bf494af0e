package watcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func leasing(more ...string) map[string]any {
	set := map[string]any{"compute-runtime": "rocm", "gpu-sharing": "exclusive"}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	return set
}

// leaseUnit returns host mi210x4 with leases, as set up by a hook.
func leaseUnit(t *testing.T, set map[string]any) *Unit {
	t.Helper()
	return leaseUnitOn(t, "mi210x4", set)
}

func leaseUnitOn(t *testing.T, host string, set map[string]any) *Unit {
	t.Helper()
	r := hosttest.Host(t, host)
	for _, dir := range []string{"/run", "/etc/concourse-ci-machine"} {
		require.NoError(t, r.MkdirAll(dir, 0o755))
	}
	require.NoError(t, r.WriteFile(oci.DefaultConfig, []byte("{}"), 0o600))
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "5f0c-boot\n")
	u := &Unit{Host: hosttest.Quiet(t, r)}
	describe(t, u, set)
	return u
}

// describe writes the wrapper's config for the present GPUs with these options.
func describe(t *testing.T, u *Unit, set map[string]any) {
	t.Helper()
	options := maps.Clone(set)
	options["mode"] = "worker"
	require.NoError(t, model.Save(u.Host.Root, model.Facts{}, model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole, Config: options}))
	require.NoError(t, (&charm.Charm{Host: u.Host}).RefreshCDI(t.Context(), io.Discard))
}

// runs adds a process to /proc.
func runs(t *testing.T, r host.Root, pid string) {
	t.Helper()
	hosttest.Put(t, r, "/proc/"+pid+"/stat", pid+" (runc) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1 1 1\n")
}

// taken leases GPUs to a running process.
func taken(t *testing.T, u *Unit, container string, pid int, ago time.Duration, w lease.Want) {
	t.Helper()
	l, err := u.readLeases()
	require.NoError(t, err)
	require.NotNil(t, l)
	l.Now = func() time.Time { return u.Host.Now().Add(-ago) }
	_, err = l.Take(lease.Call{Container: container, Bundle: "/run/b", PidFile: u.Host.Path("/run/" + container + ".pid"), Cgroup: container, PID: pid}, w)
	require.NoError(t, err)
}

func gpuStatus(t *testing.T, u *Unit, f term.Format) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, u.Status(&b, f))
	return b.String()
}

func TestGPUStatusShowsTheHolders(t *testing.T) {
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	runs(t, u.Host.Root, "4712")
	hosttest.Golden(t, "testdata/lease-free.golden", gpuStatus(t, u, term.Format{}))
	require.False(t, u.Host.Exists(lease.DefaultDir), "looking makes nothing")

	taken(t, u, "4f1c", 4711, 12*time.Minute+3*time.Second, lease.Want{Count: 2})
	taken(t, u, "77aa", 4712, 5*time.Second, lease.Want{Count: 1, Of: []int{3}})
	damaged := u.Host.Path(lease.DefaultDir + "/" + leasedName(t, u, 2))
	require.NoError(t, os.WriteFile(damaged, []byte("{"), 0o600))
	text := gpuStatus(t, u, term.Format{})
	text = string(bytes.ReplaceAll([]byte(text), []byte(u.Host.Path("/run")), []byte("/run")))
	hosttest.Golden(t, "testdata/lease-held.golden", text)

	var report struct {
		Sharing string
		pool.Report
	}
	require.NoError(t, json.Unmarshal([]byte(gpuStatus(t, u, term.Format{JSON: true})), &report))
	require.Equal(t, "exclusive", report.Sharing)
	require.Len(t, report.GPUs, 4)
	require.Equal(t, []bool{true, true, true, true}, []bool{report.GPUs[0].Held, report.GPUs[1].Held, report.GPUs[2].Held, report.GPUs[3].Held})
	require.Equal(t, "77aa", report.GPUs[3].Container)
	require.Equal(t, 3, *report.GPUs[3].Index)
	require.Contains(t, report.GPUs[2].Doubt, "is damaged")
	require.EqualValues(t, 2, report.Counters.Granted)
	require.Contains(t, gpuStatus(t, u, term.Format{Colour: true}), "\x1b[33mheld\x1b[0m")

	require.NoError(t, os.RemoveAll(u.Host.Path("/proc/4711"))) // the call was killed before its container was
	require.Contains(t, gpuStatus(t, u, term.Format{}), "free  GPU 0 ")
}

func leasedName(t *testing.T, u *Unit, i int) string {
	t.Helper()
	l, err := u.readLeases()
	require.NoError(t, err)
	return l.GPUs[i]
}

func TestGPUReleaseFreesGPUsWithoutATask(t *testing.T) {
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	release := func(which string, force bool) (string, error) {
		var b bytes.Buffer
		err := u.Release(&b, which, force)
		return b.String(), err
	}
	text, err := release("1", false)
	require.NoError(t, err)
	require.Regexp(t, `^GPU 1 \(GPU-[0-9a-f]{16}, 0000:[0-9a-f:.]+\) is free, there was nothing to release\n$`, text)

	taken(t, u, "4f1c", 4711, time.Minute, lease.Want{Count: 1, Of: []int{1}})
	_, err = release("1", false)
	require.ErrorContains(t, err, "the task of container 4f1c holds it since ")
	require.ErrorContains(t, err, " (1m0s), and it runs or left processes behind; end the build: fly -t <target> containers ")
	require.ErrorContains(t, err, "fly -t <target> abort-build")
	require.Contains(t, gpuStatus(t, u, term.Format{}), "held  GPU 1 ")

	text, err = release(leasedName(t, u, 1), true)
	require.NoError(t, err)
	require.Contains(t, text, "is released, which the task of container 4f1c held since ")
	require.Contains(t, text, "It can still open the GPU: until it ends, the next one shares it\n")
	require.NotContains(t, gpuStatus(t, u, term.Format{}), "held")

	name := u.Host.Path(lease.DefaultDir + "/" + leasedName(t, u, 2))
	require.NoError(t, os.WriteFile(name, []byte("{\"con"), 0o600))
	_, err = release("2", false)
	require.ErrorContains(t, err, "is damaged")
	require.ErrorContains(t, err, "force=true")
	text, err = release("2", true)
	require.NoError(t, err)
	require.Contains(t, text, "its record was damaged")
	text, err = release("2", false)
	require.NoError(t, err)
	require.Contains(t, text, "nothing to release")

	taken(t, u, "77aa", 4711, 0, lease.Want{Count: 1, Of: []int{0}})
	require.NoError(t, os.RemoveAll(u.Host.Path("/proc/4711")))
	text, err = release("0", false)
	require.NoError(t, err)
	require.Contains(t, text, "is free; the task of container 77aa had it last\n")
}

func TestGPUsAreFoundByTheNamesInTheStatus(t *testing.T) {
	gpus := []gpu.Slot{{PCI: "0000:0a:00.0", UniqueID: "00000000000000a1"}, {Index: 1, PCI: "0000:0a:00.0", Partition: 1},
		{Index: 3, PCI: "0000:1b:00.0", UniqueID: "ff"}, gpu.MissingSlot("0000:2c:00.0")}
	for which, want := range map[string]int{"0": 0, " 1 ": 1, "3": 2, "gpu-FF": 2, "0000:1B:00.0": 2, "0000:0A:00.0-1": 1, "0000:2c:00.0": 3} {
		i, err := (&Unit{}).findGPU(gpus, "release", "leases", which)
		require.NoError(t, err, which)
		require.Equal(t, want, i, which)
	}
	for which, want := range map[string]string{
		"2": `cannot release GPU "2": this unit leases 0 (GPU-00000000000000a1, 0000:0a:00.0), 1 (0000:0a:00.0, partition 1), 3 (GPU-ff, 0000:1b:00.0), 0000:2c:00.0`,
		"":  `cannot release GPU "": this unit leases `, "-1": "this unit leases", "all": "this unit leases",
		"0000:0a:00.0": `cannot release GPU "0000:0a:00.0": that is GPU 0 (GPU-00000000000000a1, 0000:0a:00.0) and GPU 1 (0000:0a:00.0, partition 1); name one of them`,
	} {
		_, err := (&Unit{}).findGPU(gpus, "release", "leases", which)
		require.ErrorContains(t, err, want, which)
	}
}

// The wrapper's config is used: an option has no effect before a hook applies it.
func TestSharedGPUsAreNotLeased(t *testing.T) {
	u := leaseUnit(t, map[string]any{"compute-runtime": "rocm"})
	require.Equal(t, "gpu-sharing=shared: GPUs are not leased\n", gpuStatus(t, u, term.Format{}))
	require.JSONEq(t, `{"sharing": "shared"}`, gpuStatus(t, u, term.Format{JSON: true}))
	require.EqualError(t, u.Release(nil, "0", true), `cannot release GPU "0": gpu-sharing=shared: GPUs are not leased`)
	require.NoError(t, u.Host.Remove(oci.DefaultConfig))
	require.Equal(t, "gpu-sharing=shared: GPUs are not leased\n", gpuStatus(t, u, term.Format{}))
	require.NoError(t, u.Host.WriteFile(oci.DefaultConfig, []byte("{"), 0o600))
	require.ErrorContains(t, u.Status(nil, term.Format{}), "the next hook writes it again")
}

func TestLeaseReportExistsOnlyWithLeases(t *testing.T) {
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	taken(t, u, "4f1c", 4711, time.Minute, lease.Want{Count: 1})
	require.NoError(t, u.ReportLeases(t.Context(), nil))
	st, err := u.Host.Stat(pool.ReportFile)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), st.Mode(), "the exporter is nobody")
	data, err := u.Host.ReadFile(pool.ReportFile)
	require.NoError(t, err)
	var r pool.Report
	require.NoError(t, json.Unmarshal(data, &r))
	require.True(t, r.At.Equal(u.Host.Now()))
	require.Equal(t, "4f1c", r.GPUs[0].Container)

	// The exporter shows only recent leases, so the report has the time of its clock.
	r.At = time.Now()
	fresh, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, u.Host.WriteFile(pool.ReportFile, fresh, 0o644))
	w := httptest.NewRecorder()
	watched := monitor.New(u.Host.Root, monitor.All(u.Host.Root), monitor.Options{Leases: pool.ReportFile})
	exporter.Handler(&exporter.Source{Root: u.Host.Root, Monitor: watched}, exporter.MetricOptions{}).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	metrics := w.Body.String()
	require.Contains(t, metrics, `rocm_gpu_lease_held{gpu="0",pci_bus_id="0000:23:00.0",uuid="GPU-7c1e55a90b34d2f6"} 1`)
	require.Contains(t, metrics, `rocm_gpu_lease_held{gpu="3",pci_bus_id="0000:c3:00.0",uuid="GPU-915b7ce2af083d64"} 0`)
	require.Contains(t, metrics, `rocm_gpu_lease_age_seconds{container="4f1c",gpu="0"`)

	require.NoError(t, u.Host.Remove(oci.DefaultConfig))
	var b bytes.Buffer
	require.NoError(t, u.ReportLeases(t.Context(), &b))
	require.False(t, u.Host.Exists(pool.ReportFile), "what was written before would be shown on")
}

// The wrapper, the actions and the exporter use one name for a GPU's lease.
func TestWrapperActionsAndExporterUseOneName(t *testing.T) {
	for _, name := range []string{"amd", "mi210x4", "mi300x-cpx", "apu-gfx1103"} {
		u := leaseUnitOn(t, name, leasing())
		devices, _, err := monitor.All(u.Host.Root)()
		require.NoError(t, err)
		inv, err := gpu.Discover(u.Host.Root)
		require.NoError(t, err)
		data, err := u.Host.ReadFile(oci.DefaultConfig)
		require.NoError(t, err)
		var config oci.Config
		require.NoError(t, json.Unmarshal(data, &config))
		names := config.GPUs
		require.Len(t, devices, len(names), name)
		for i, d := range devices {
			require.Equal(t, d.Address(), names[i].Name)
			got := findSlot(inv, names[i].Name)
			require.Equal(t, []any{names[i].Name, d.Index, d.PCI, d.Partition}, []any{got.Address(), got.Index, got.PCI, got.Partition})
		}
	}
	both, err := gpu.Discover(hosttest.Host(t, "both-passed"))
	require.NoError(t, err)
	nvidia := both.GPUsOf(gpu.NVIDIA)[0]
	require.Equal(t, nvidia.Slot, findSlot(both, nvidia.PCI))
}

// anonymous removes the unique ids of the GPUs.
func anonymous(t *testing.T, r host.Root) {
	t.Helper()
	ids, err := r.Glob("/sys/devices/pci*/*/*/unique_id")
	require.NoError(t, err)
	require.NotEmpty(t, ids)
	for _, path := range ids {
		require.NoError(t, r.Remove(path))
	}
	nodes, err := r.Glob("/sys/class/kfd/kfd/topology/nodes/*/properties")
	require.NoError(t, err)
	for _, path := range nodes {
		text, err := r.ReadText(path)
		require.NoError(t, err)
		hosttest.Put(t, r, path, strings.ReplaceAll(text, "unique_id ", "unknown ")+"\n")
	}
}

// Two GPUs without a unique id, such as consumer cards: the first one is removed, and the
// second becomes GPU 0.
func TestLeaseStaysWithItsGPUWhenTheIndexMoves(t *testing.T) {
	u := leaseUnit(t, leasing("gpu-device-ids", "0,1"))
	anonymous(t, u.Host.Root)
	describe(t, u, leasing())
	runs(t, u.Host.Root, "4711")
	taken(t, u, "4f1c", 4711, time.Minute, lease.Want{Count: 1, Of: []int{1}})
	require.Contains(t, gpuStatus(t, u, term.Format{}), "held  GPU 1 (0000:43:00.0)\n      by the task of container 4f1c")
	require.NoError(t, u.Host.Remove("/dev/dri/renderD128"))
	describe(t, u, leasing())
	require.Contains(t, gpuStatus(t, u, term.Format{}), "held  GPU 0 (0000:43:00.0)\n      by the task of container 4f1c")
	l, err := u.readLeases()
	require.NoError(t, err)
	_, err = l.Take(lease.Call{Container: "77aa", Bundle: "/b", PidFile: "/p", Cgroup: "77aa", PID: 4711}, lease.Want{Count: 1, Of: []int{0}})
	require.ErrorContains(t, err, "is held by the task of container 4f1c")
}

func TestUnreadableConfigNamesSudo(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	u := leaseUnit(t, leasing())
	require.NoError(t, os.Chmod(u.Host.Path(oci.DefaultConfig), 0))
	err := u.Status(nil, term.Format{})
	require.ErrorContains(t, err, "run it with sudo")
	require.False(t, errors.Is(err, fs.ErrNotExist))
}

func TestGPUStatusShowsWarnings(t *testing.T) {
	u := leaseUnit(t, leasing())
	warning := &health.Fault{Kind: "failed_tasks", Value: 4, Signals: []string{"40 correctable errors"}}
	require.NoError(t, quarantine.RecordFile.Write(u.Host.Root, quarantine.Record{GPUs: []quarantine.GPU{
		{Ref: quarantine.Ref{Name: "0000:43:00.0", Index: 1}, State: quarantine.InService, Warning: warning}}}))
	require.Contains(t, gpuStatus(t, u, term.Format{}), "\nwarning: GPU 1 (GPU-2f90ab16c8e7431d, 0000:43:00.0): 4 different tasks crash only on it, and 40 correctable errors; run a program on it")
	require.Contains(t, gpuStatus(t, u, term.Format{JSON: true}), `"warning": "4 different tasks crash only on it`)
}

// An exclusive unit without GPUs does not share any.
func TestExclusiveUnitWithoutAGPUIsNotReportedAsShared(t *testing.T) {
	const says = "gpu-sharing=exclusive: no GPU is leased, as this unit has none that tasks can use; see juju status"
	for name, unit := range map[string]*Unit{
		"a wrong option":   leaseUnit(t, leasing("gpu-device-ids", "7")),
		"no GPU at all":    leaseUnitOn(t, "no-gpu", leasing()),
		"no configuration": leaseUnit(t, leasing("compute-runtime", "none", "srv-folders", "none")),
	} {
		require.Equal(t, says+"\n", gpuStatus(t, unit, term.Format{}), name)
		require.JSONEq(t, `{"sharing": "exclusive"}`, gpuStatus(t, unit, term.Format{JSON: true}), name)
		require.EqualError(t, unit.Release(nil, "0", true), `cannot release GPU "0": `+says, name)
		var b bytes.Buffer
		require.NoError(t, unit.ReportLeases(t.Context(), &b))
		require.Equal(t, says+"\n", b.String(), name)
	}
}

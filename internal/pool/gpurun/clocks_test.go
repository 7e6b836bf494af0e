package gpurun

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// driver has the clocks of GPUs. Those of a GPU that hangs are fixed when the channel is closed.
type driver struct {
	mu     sync.Mutex
	fixed  map[string]string
	hangs  chan struct{}
	began  chan struct{} // closed when a GPU hangs
	broken string        // GPU
}

func (d *driver) Fixed(gpu string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fixed[gpu], d.fixed[gpu] != ""
}

func (d *driver) set(gpu, run string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fixed[gpu] = run
	return nil
}

func (d *driver) Fix(gpu, run string) error {
	if d.hangs != nil {
		close(d.began)
		<-d.hangs
	}
	if gpu == d.broken {
		return errors.New("GPU " + gpu + " does not answer")
	}
	return d.set(gpu, run)
}
func (d *driver) Restore(gpu string) error     { return d.set(gpu, "") }
func (d *driver) Reset(gpu string) error       { return d.set(gpu, "") }
func (d *driver) Record(run string) string     { return "/records/" + run }
func (d *driver) Forget(run string) error      { return nil }
func (d *driver) level(gpu string) (is string) { is, _ = d.Fixed(gpu); return is }

// benches serves three GPUs, of which the last one has a driver that fixes no clocks.
func benches(t *testing.T, d *driver) (socket string) {
	t.Helper()
	d.fixed = map[string]string{}
	sysfs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(sysfs, "power_dpm_force_performance_level"), []byte("auto\n"), 0o600))
	m := machineOf("gfx90a", "gfx90a", "gfx942")
	m.GPUs[0].Clocks = &fixedclocks.Setting{Sysfs: sysfs, Level: fixedclocks.Standard}
	m.GPUs[1].Clocks = m.GPUs[0].Clocks
	m.GPUs[2].Clocks = &fixedclocks.Setting{Sysfs: t.TempDir(), Level: fixedclocks.Determinism}
	return serveMachine(t, &Server{Clocks: d,
		Groups: func() (rungroup.Tree, error) { return rungroup.Tree{}, errors.New("no cgroup v2") }}, m)
}

func TestGrantOfABenchHasFixedClocks(t *testing.T) {
	var d driver
	h, _, err := ask(benches(t, &d), 0, Request{GPUs: 2, Bench: true})
	require.NoError(t, err)
	defer h.End(0)
	require.Contains(t, h.Text(0), " with fixed clocks (profile_standard)")
	require.Contains(t, h.Variables, "GPU_FIXED_CLOCKS_RECORD=/records/"+h.Run)
	require.Equal(t, h.Run, d.level(h.GPU[0].Address))
	require.Equal(t, h.Run, d.level(h.GPU[1].Address))
}

func TestBenchIsRefusedAtOnceIfTheDriverFixesNoClocks(t *testing.T) {
	_, _, err := ask(benches(t, &driver{}), -1, Request{GPUs: 1, Arch: "gfx942", Bench: true})
	require.EqualError(t, err, "cannot lease 1 GPU with fixed clocks: the clocks of GPU 2 cannot be fixed: "+
		"its driver has no power_dpm_force_performance_level; run it without --bench")
}

// The other GPU gets its own clocks back, and both are free again.
func TestBenchWithoutAllClocksLeasesNothing(t *testing.T) {
	d := driver{broken: "0000:02:00.0"}
	socket := benches(t, &d)
	_, _, err := ask(socket, 0, Request{GPUs: 2, Bench: true})
	require.EqualError(t, err,
		"cannot fix the clocks: GPU 0000:02:00.0 does not answer; without --bench they follow load and heat")
	require.Empty(t, d.level("0000:01:00.0"))
	h, _, err := ask(socket, 0, Request{GPUs: 3})
	require.NoError(t, err)
	h.End(0)
}

func TestGPUThatHangsKeepsNoOtherRunWaiting(t *testing.T) {
	d := driver{hangs: make(chan struct{}), began: make(chan struct{})}
	socket := benches(t, &d)
	bench := make(chan error, 1)
	go func() {
		h, _, err := ask(socket, -1, Request{IDs: []string{"0"}, Bench: true})
		if err == nil {
			h.End(0)
		}
		bench <- err
	}()
	<-d.began
	h, _, err := ask(socket, 0, Request{GPUs: 2})
	require.NoError(t, err)
	h.End(0)
	close(d.hangs)
	require.NoError(t, <-bench)
}

// An earlier holder was killed with the service.
func TestNextRunGetsNoFixedClocks(t *testing.T) {
	var d driver
	socket := benches(t, &d)
	require.NoError(t, d.set("0000:01:00.0", "run-0123456789ab"))
	h, _, err := ask(socket, 0, Request{IDs: []string{"0"}})
	require.NoError(t, err)
	defer h.End(0)
	require.Empty(t, d.level("0000:01:00.0"))
	require.Empty(t, h.Clocks)
}

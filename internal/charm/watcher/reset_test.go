package watcher

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// resettable returns a unit with a stand-in driver: a read of GPU 1's file frees its memory.
func resettable(t *testing.T, set map[string]any, name, used string) (u *Unit, started *[]string) {
	t.Helper()
	u = leaseUnit(t, set)
	watchedBy(t, u)
	r := u.Host.Root
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	for node := range 9 {
		hosttest.Put(t, r, "/sys/class/kfd/kfd/topology/nodes/"+strconv.Itoa(node)+"/gpu_id", strconv.Itoa(1000+node)+"\n")
		require.NoError(t, r.MkdirAll("/sys/class/kfd/kfd/topology/nodes/"+strconv.Itoa(node)+"/io_links", 0o755))
	}
	require.NoError(t, os.MkdirAll(r.Path("/proc"), 0o755))
	dir := "/sys/kernel/debug/dri/" + strconv.Itoa(int(inv.Find(name).Render.Minor))
	hosttest.Put(t, r, dir+"/name", "amdgpu dev="+name+" unique="+name+"\n")
	fifo := r.Path(dir + "/amdgpu_gpu_recover")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	const idle = "1073741824\n"
	hosttest.Put(t, r, used, idle)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the reader
		if err == nil {
			_ = os.WriteFile(r.Path(used), []byte(idle), 0o644)
			_, _ = f.WriteString("gpu recover 0\n")
			_ = f.Close()
		}
	}()
	t.Cleanup(func() { // a reset that did not begin
		if fd, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			<-ended
			unix.Close(fd)
		}
	})
	started = &[]string{}
	u.Start = func(args ...string) error {
		if args[1] == "reset" {
			*started = append(*started, args[2])
		}
		return nil
	}
	return u, started
}

// A task leaves 32 GiB behind on GPU 1. Its memory is back within two minutes of its end,
// and the GPU then goes through its probation as after any fault.
func TestLeakedMemoryIsBackWithinTwoMinutes(t *testing.T) {
	const name = "0000:43:00.0"
	const used = "/sys/bus/pci/devices/" + name + "/mem_info_vram_used"
	for _, mode := range []string{"reset", "auto"} {
		t.Run(mode, func(t *testing.T) {
			u, started := resettable(t, leasing("gpu-quarantine", mode), name, used)
			watched(t, u)
			runs(t, u.Host.Root, "4711")
			taken(t, u, "4f1c", 4711, 5*time.Second, lease.Want{Count: 1, Of: []int{1}})
			look := func() { u.after(15 * time.Second); watched(t, u) }
			hosttest.Put(t, u.Host.Root, used, "34359738368\n")
			look()
			require.NoError(t, os.RemoveAll(u.Host.Path("/proc/4711")))
			ended := u.Host.Now()
			for range 7 {
				look()
				if len(*started) > 0 {
					break
				}
			}
			state := func() quarantine.State {
				r, err := quarantine.RecordFile.Read(u.Host.Root)
				require.NoError(t, err)
				return r.Find(name).State
			}
			require.Equal(t, quarantine.Quarantined, state())
			if mode == "auto" {
				require.Empty(t, *started)
				require.ErrorContains(t, u.ResetGPU(&bytes.Buffer{}, name), "gpu-quarantine is not reset")
				return
			}
			require.Equal(t, []string{name}, *started)
			var out bytes.Buffer
			require.NoError(t, runReset(t, u, &out, name))
			require.Equal(t, "GPU 0000:43:00.0: reset done at 2026-01-02 03:06:05 UTC\n", out.String())
			look()
			require.Equal(t, quarantine.OnProbation, state())
			require.Contains(t, gpuStatus(t, u, term.Format{}), "\n      reset done at 2026-01-02 03:06:05 UTC\n")
			require.LessOrEqual(t, u.Host.Now().Sub(ended), 2*time.Minute)
			for range 21 {
				look()
			}
			require.Equal(t, quarantine.InService, state())
			require.Len(t, *started, 1)
		})
	}
}

// runReset is the process that the look has started. It is in /proc, because its lease lasts
// as long as it does.
func runReset(t *testing.T, u *Unit, out *bytes.Buffer, name string) error {
	t.Helper()
	pid := strconv.Itoa(os.Getpid())
	runs(t, u.Host.Root, pid)
	require.NoError(t, os.MkdirAll(u.Host.Path("/proc/"+pid+"/task"), 0o755))
	err := u.ResetGPU(out, name)
	require.NoError(t, os.RemoveAll(u.Host.Path("/proc/"+pid)))
	return err
}

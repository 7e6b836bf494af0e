package usage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

func TestUseBelongsToTheContainer(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1024, 2_500_000_000, "drm-engine-compute:\t500000000 ns\n"))
	m.opens(100, 6, "/dev/dri/renderD129", amdgpu(second.PCI, 8, 4, 0))
	m.process(200, docker)
	m.opens(200, 4, "/dev/dri/card0", amdgpu(first.PCI, 9, 8, 0))
	m.process(300, system)
	m.opens(300, 9, "/dev/dri/renderD128", amdgpu(first.PCI, 10, 16, 1_000_000_000))
	m.process(400, task)
	s := m.scanner(Options{})
	require.Equal(t, `"": 1 vram=16384 gtt=2.097152e+06 cpu=0 gfx=1s
"4c01db0b339c": 1 vram=8192 gtt=2.097152e+06 cpu=0
"eb2a4fe8-e932-49c4-b519-4f1da1901416": 1 vram=1.048576e+06 gtt=2.097152e+06 cpu=0 compute=0.5s gfx=2.5s
`, scan(t, s, first))
	require.Equal(t, `"eb2a4fe8-e932-49c4-b519-4f1da1901416": 1 vram=4096 gtt=2.097152e+06 cpu=0
`, rows(s.Last(), second))
	require.Zero(t, s.Last().Left)
}

func TestClientInSeveralFilesAndProcessesIsCountedOnce(t *testing.T) {
	m := newMachine(t)
	m.process(100, system) // opened it and gave it to the container
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1024, 3_000_000_000))
	for _, pid := range []int{200, 201} {
		m.process(pid, task)
		for fd := 5; fd < 8; fd++ {
			m.opens(pid, fd, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1024, 3_000_000_000))
		}
	}
	m.opens(201, 9, "/dev/dri/renderD129", amdgpu(second.PCI, 7, 8, 0)) // ids are of one GPU
	s := m.scanner(Options{})
	require.Equal(t, `"": 1
"`+handle+`": 2 vram=1.048576e+06 gtt=2.097152e+06 cpu=0 gfx=3s
`, scan(t, s, first))
	require.Equal(t, `"`+handle+`": 1 vram=8192 gtt=2.097152e+06 cpu=0
`, rows(s.Last(), second))
}

// An APU's memory is a carve-out, which is its VRAM, and system memory (gtt). It
// is a PCI device and a client like any other.
func TestAPUIsCoveredLikeTheOthers(t *testing.T) {
	m := newMachine(t)
	apu := gpu.Slot{PCI: "0000:c4:00.0", Sysfs: "/sys/devices/pci0000:00/0000:00:08.1/0000:c4:00.0"}
	require.NoError(t, m.root.MkdirAll(apu.Sysfs+"/drm/renderD130", 0o755))
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD130", "drm-driver:\tamdgpu\ndrm-client-id:\t30\ndrm-pdev:\t0000:c4:00.0\npasid:\t32785\n"+
		"drm-total-gtt:\t6 GiB\ndrm-resident-gtt:\t5120 MiB\ndrm-resident-vram:\t300 MiB\ndrm-memory-vram:\t307200 KiB\ndrm-memory-gtt: \t1 KiB\ndrm-engine-gfx:\t1000000000 ns\n")
	s := m.scanner(Options{})
	s.Scan(context.Background(), []gpu.Slot{apu})
	require.Equal(t, `"`+handle+`": 1 vram=3.145728e+08 gtt=5.36870912e+09 gfx=1s
`, rows(s.Last(), apu))
}

func TestPartitionsAreDistinguishedByTheirNodes(t *testing.T) {
	m := newMachine(t)
	part := gpu.Slot{PCI: first.PCI, Partition: 1, DRM: "/sys/devices/platform/amdgpu_xcp_0"}
	require.NoError(t, m.root.MkdirAll(part.DRM+"/drm/renderD130", 0o755))
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1, 0))
	m.opens(100, 6, "/dev/dri/renderD130", amdgpu(first.PCI, 8, 2, 0))
	s := m.scanner(Options{})
	s.Scan(context.Background(), []gpu.Slot{first, part})
	require.Contains(t, rows(s.Last(), first), " vram=1024 ")
	require.Contains(t, rows(s.Last(), part), " vram=2048 ")
}

func TestOthersClientsAreNotCounted(t *testing.T) {
	for name, info := range map[string]string{
		"another driver":       "drm-driver:\ti915\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-engine-render:\t1 ns\n",
		"NVIDIA's":             "drm-driver:\tnvidia-drm\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n",
		"no driver":            "pos:\t0\nflags:\t02100002\n",
		"an old amdgpu":        "pdev:\t0000:03:00.0\npasid:\t32771\nvram mem:\t44 kB\ngfx0:\t1.00%\n",
		"no client id":         "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n",
		"a GPU not passed":     amdgpu("0000:99:00.0", 7, 1, 1),
		"a file that is empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.process(100, task)
			m.opens(100, 5, "/dev/dri/renderD128", info)
			require.Empty(t, scan(t, m.scanner(Options{}), first))
		})
	}
}

func TestNodeWithAnotherNameInItsContainerIsFound(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD200", amdgpu(second.PCI, 7, 1, 0))
	require.Contains(t, scan(t, m.scanner(Options{}), second), handle)
}

// The driver of a GPU that is not reported on is not asked: here its fdinfo
// would hang for ever.
func TestUnreportedGPUIsNotQueried(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	require.NoError(t, m.root.MkdirAll("/sys/class/drm/renderD131", 0o755))
	m.opens(100, 5, "/dev/dri/renderD131", "")
	require.NoError(t, m.root.Remove("/proc/100/fdinfo/5"))
	require.NoError(t, unix.Mkfifo(m.root.Path("/proc/100/fdinfo/5"), 0o644))
	require.Empty(t, scan(t, m.scanner(Options{}), first))
}

// A read that hangs costs its own GPU's rows, and there is one at most.
func TestHangingGPULosesItsOwnRowsAndIsQueriedOnce(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", "")
	m.opens(100, 6, "/dev/dri/renderD129", amdgpu(second.PCI, 8, 4, 0))
	pipe := m.root.Path("/proc/100/fdinfo/5")
	require.NoError(t, os.Remove(pipe))
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	s := m.scanner(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the time is up once it hangs
		for !s.readings.Outstanding(first.PCI) {
			runtime.Gosched()
		}
		cancel()
	}()
	s.Scan(ctx, []gpu.Slot{first, second})
	require.Empty(t, rows(s.Last(), first))
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns as there is a reader: the one that hangs
	require.NoError(t, err)
	for s.readings.Outstanding(second.PCI) {
		runtime.Gosched()
	}
	s.Scan(context.Background(), []gpu.Slot{first, second}) // does not wait for the GPU that is outstanding
	require.Empty(t, rows(s.Last(), first))
	require.Contains(t, rows(s.Last(), second), handle)
	_, err = w.WriteString(amdgpu(first.PCI, 7, 1024, 0))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for s.readings.Outstanding(first.PCI) {
		runtime.Gosched()
	}
	require.NoError(t, os.Remove(pipe))
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1024, 0))
	require.Contains(t, scan(t, s, first), " vram=1.048576e+06 ")
}

func TestEndedAndHiddenProcessesAreLeftOut(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1, 0))
	m.opens(100, 6, "/dev/dri/renderD128", amdgpu(first.PCI, 8, 1, 0))
	require.NoError(t, os.Remove(m.root.Path("/proc/100/fdinfo/6"))) // closed
	require.NoError(t, m.root.MkdirAll("/proc/101", 0o755))          // ended after the list was read
	m.process(102, task)
	m.opens(102, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 9, 1, 0))
	require.NoError(t, os.Remove(m.root.Path("/proc/102/cgroup")))
	s := m.scanner(Options{})
	require.Equal(t, `"": 1 vram=1024 gtt=2.097152e+06 cpu=0
"`+handle+`": 1 vram=1024 gtt=2.097152e+06 cpu=0
`, scan(t, s, first))
	require.Zero(t, s.Last().Left)
}

func TestForbiddenProcessIsCounted(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.process(101, task)
	fds := m.root.Path("/proc/100/fd")
	require.NoError(t, os.Chmod(fds, 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(fds, 0o755)) })
	var left LeftOut
	w := newWalk(m.root, defaultLinks)
	asNobody(t, m.root, func() { w.run(&left) })
	require.Equal(t, LeftOut{Unreadable: 1}, left)
	require.NotContains(t, w.seen, 100, "it is tried again each time")
}

// asNobody runs work without root's way around permissions, in this thread.
func asNobody(t *testing.T, r host.Root, work func()) {
	if os.Geteuid() != 0 {
		work()
		return
	}
	require.NoError(t, os.Chmod(filepath.Dir(string(r)), 0o755)) // of the test's own folder
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Setfsuid(65534))
	defer func() { require.NoError(t, unix.Setfsuid(0)) }()
	work()
}

func TestClientsOfOneGPUAreBounded(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	for fd := range 30 {
		m.opens(100, 10+fd, "/dev/dri/renderD128", amdgpu(first.PCI, fd, 1, 0))
	}
	m.opens(100, 99, "/dev/dri/renderD129", amdgpu(second.PCI, 7, 1, 0))
	s := m.scanner(Options{Clients: 20})
	require.Contains(t, scan(t, s, first), fmt.Sprintf(" vram=%d ", 20<<10))
	require.Contains(t, rows(s.Last(), second), handle)
	require.Equal(t, LeftOut{Limit: 10}, s.Last().Left)
}

// The test's own machine, whatever it is: the walk reads it without fault.
func TestRealProcessesAreRead(t *testing.T) {
	s := New("/", Options{}, nil)
	s.Scan(context.Background(), []gpu.Slot{first})
	require.NotNil(t, s.Last())
	require.Contains(t, s.walk.seen, os.Getpid(), "this process was looked at")
	require.Equal(t, looked{inode: s.walk.seen[os.Getpid()].inode, turn: 1}, s.walk.seen[os.Getpid()], "and uses no GPU")
	require.Empty(t, s.Last().Of(first))
	before := s.walk.seen[os.Getpid()].inode
	s.Scan(context.Background(), []gpu.Slot{first})
	require.Equal(t, before, s.walk.seen[os.Getpid()].inode, "a process keeps its inode number")
}

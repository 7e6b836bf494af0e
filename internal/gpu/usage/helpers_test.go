package usage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Two GPUs, the first with KFD's number 4711, the second with 4712.
var (
	first  = gpu.Slot{PCI: "0000:03:00.0", Sysfs: "/sys/devices/pci0000:00/0000:03:00.0"}
	second = gpu.Slot{PCI: "0000:43:00.0", Sysfs: "/sys/devices/pci0000:00/0000:43:00.0"}
)

const (
	handle = "eb2a4fe8-e932-49c4-b519-4f1da1901416"
	task   = "0::/system.slice/concourse-worker.service/garden/" + handle + "\n"
	docker = "0::/system.slice/docker-4c01db0b339c1f6a0d4a9f1e2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e.scope\n"
	system = "0::/system.slice/ollama.service\n"
)

// machine is a tree with the two GPUs and no process.
type machine struct {
	t    testing.TB
	root host.Root
	now  time.Time
}

func newMachine(t testing.TB) *machine {
	m := &machine{t, host.Root(t.TempDir()), hosttest.Now}
	for i, d := range []gpu.Slot{first, second} {
		for _, node := range []string{"card" + strconv.Itoa(i), "renderD" + strconv.Itoa(128+i)} {
			require.NoError(t, m.root.MkdirAll(d.Sysfs+"/drm/"+node, 0o755))
			m.link("/sys/class/drm/"+node, d.Sysfs+"/drm/"+node)
		}
		at := fmt.Sprintf("%s/%d/", topology, i+1)
		hosttest.Put(t, m.root, at+"gpu_id", strconv.Itoa(4711+i)+"\n")
		hosttest.Put(t, m.root, at+"properties", fmt.Sprintf("simd_count 96\ndrm_render_minor %d\n", 128+i))
	}
	hosttest.Put(t, m.root, topology+"/0/gpu_id", "0\n")
	require.NoError(t, m.root.MkdirAll("/proc", 0o755))
	m.link("/proc/1/ns/pid", initNamespace)
	return m
}

func (m *machine) link(at, to string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.root.Path(at)), 0o755))
	require.NoError(m.t, os.RemoveAll(m.root.Path(at)))
	require.NoError(m.t, os.Symlink(to, m.root.Path(at)))
}

func (m *machine) file(at, text string) {
	m.t.Helper()
	hosttest.Put(m.t, m.root, at, text)
}

// process makes one with its control group, and descriptors that lead nowhere near a GPU.
func (m *machine) process(pid int, cgroup string) {
	at := fmt.Sprintf("/proc/%d/", pid)
	m.file(at+"cgroup", cgroup)
	m.link(at+"fd/0", "/dev/null")
	m.link(at+"fd/1", "pipe:[81722]")
	m.link(at+"fd/2", "/dev/dri/by-path")
	m.link(at+"fd/3", "socket:[9911]")
}

func (m *machine) opens(pid, fd int, node, fdinfo string) {
	m.link(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), node)
	m.file(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd), fdinfo)
}

func (m *machine) ends(pid int) {
	require.NoError(m.t, os.RemoveAll(m.root.Path(fmt.Sprintf("/proc/%d", pid))))
}

// amdgpu is a fdinfo as amdgpu prints it; vram in KiB, gfx in ns.
func amdgpu(pci string, id, vram, gfx int, more ...string) string {
	return fmt.Sprintf("pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t1204\ndrm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n"+
		"pasid:\t%d\ndrm-memory-vram:\t%d KiB\ndrm-memory-gtt: \t2048 KiB\ndrm-memory-cpu: \t0 KiB\namd-requested-vram:\t%[4]d KiB\ndrm-engine-gfx:\t%d ns\n%s",
		id, pci, 32000+id, vram, gfx, strings.Join(more, ""))
}

func (m *machine) kfd(pid int, files map[string]string) {
	for name, text := range files {
		m.file(fmt.Sprintf("%s/%d/%s", kfdProcs, pid, name), text+"\n")
	}
}

func (m *machine) scanner(o Options) *Scanner {
	return New(m.root, o, func() time.Time { return m.now })
}

// scan looks once, with no deadline, and returns the rows of a device as text.
func scan(t testing.TB, s *Scanner, d gpu.Slot) string {
	t.Helper()
	s.Scan(context.Background(), []gpu.Slot{first, second})
	return rows(s.Last(), d)
}

func rows(r *Result, d gpu.Slot) string {
	var b strings.Builder
	for _, row := range r.Of(d) {
		fmt.Fprintf(&b, "%q: %d", row.Container, row.Processes)
		for _, a := range row.Memory {
			fmt.Fprintf(&b, " %s=%v", a.Name, a.Value)
		}
		for _, a := range row.Engines {
			fmt.Fprintf(&b, " %s=%vs", a.Name, a.Value)
		}
		for _, a := range row.Units {
			fmt.Fprintf(&b, " units=%v", a.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Of returns the rows of a GPU, nil if its driver did not answer.
func (r *Result) Of(d gpu.Slot) []Row {
	if u := r.Find(d); u != nil {
		return u.Rows
	}
	return nil
}

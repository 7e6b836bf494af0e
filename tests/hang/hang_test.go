//go:build e2e

package hang

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/fusefs"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// commandTime is ten times what a hook may take.
const commandTime = 5 * time.Minute

// missing reports why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed to mount"
	}
	if lacks := fusefs.Missing(); lacks != "" {
		return lacks
	}
	return suite.Lacks("iproute2", "ip")
}

// machine is one with GPUs, of which the first may hang.
type machine struct {
	*testing.T
	root host.Root
	sick *fusefs.Mirror
}

const (
	sickGPU = "0000:04:00.0"
	wellGPU = "0000:0b:00.0"
)

func newMachine(t *testing.T) *machine {
	suite.Need(t, missing())
	return machineAt(t, hosttest.ManyGPUs(t, 2), 2)
}

func machineAt(t *testing.T, root host.Root, gpus int) *machine {
	m := &machine{T: t, root: root}
	require.NoError(t, suite.Build(m.root.Path("/bin"), "./src/dispatch", "./src/rocm-exporter"))
	nodes := []string{"/dev/kfd"}
	for i := range gpus {
		nodes = append(nodes, fmt.Sprintf("/dev/dri/card%d", 1+i), fmt.Sprintf("/dev/dri/renderD%d", 128+i))
	}
	for _, name := range nodes {
		text, err := m.root.ReadText(name)
		require.NoError(t, err)
		major, minor, err := host.ParseNumber(strings.Fields(text)[0])
		require.NoError(t, err)
		require.NoError(t, os.Remove(m.root.Path(name)))
		require.NoError(t, unix.Mknod(m.root.Path(name), unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))))
	}
	require.NoError(t, unix.Mknod(m.root.Path("/dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	// The processes are this machine's, the drivers are not.
	devices := filepath.Join(t.TempDir(), "devices")
	require.NoError(t, os.Rename(m.root.Path("/proc/devices"), devices))
	require.NoError(t, unix.Mount("proc", m.root.Path("/proc"), "proc", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(m.root.Path("/proc"), unix.MNT_DETACH)) })
	require.NoError(t, unix.Mount(devices, m.root.Path("/proc/devices"), "", unix.MS_BIND, ""))
	m.sick = fusefs.New(t, m.root.Path("/sys/devices/pci0000:00/0000:00:01.0/"+sickGPU))
	return m
}

func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// command runs a program of the machine.
func (m *machine) command(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: string(m.root)}
	return c
}

// startOwner starts the owner of the GPUs, which starts the watcher, and waits for its first
// decision.
func (m *machine) startOwner() {
	m.start("write-gpus", role.GPUReport, "--", "/bin/dispatch", "gpu", "watch")
	m.eventually(func() bool { return m.root.Exists(quarantine.File) })
	require.Equal(m, map[string]string{sickGPU: "in_service", wellGPU: "in_service"}, m.states())
}

// start starts a command of rocm-exporter.
func (m *machine) start(args ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	c := m.command(ctx, append([]string{"/bin/rocm-exporter"}, args...)...)
	c.Stderr = os.Stderr
	require.NoError(m, c.Start())
	m.Cleanup(func() {
		m.sick.Hang(false) // or it can't end
		cancel()
		_ = c.Wait()
	})
}

func (m *machine) eventually(condition func() bool) {
	m.Helper()
	require.Eventually(m, condition, commandTime, 100*time.Millisecond)
}

// startExporter starts the exporter, and waits until it answers.
func (m *machine) startExporter() {
	m.start("serve", "--collect.usage=false", "--collect.pcie-bandwidth=false")
	m.eventually(func() bool {
		out, err := m.command(context.Background(), "/bin/dispatch", "gpu", "top").CombinedOutput()
		return err == nil && !strings.Contains(string(out), "not live")
	})
}

// dispatch runs a command of dispatch, which must end, and returns its output.
func (m *machine) dispatch(args ...string) string {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	c := m.command(ctx, append([]string{"/bin/dispatch"}, args...)...)
	var out strings.Builder
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, time.Second
	ended := make(chan error, 1)
	began := time.Now()
	require.NoError(m, c.Start())
	go func() { ended <- c.Wait() }()
	select {
	case <-ended: // its status is the caller's, as its output shows
	case <-time.After(commandTime):
		require.Fail(m, "dispatch does not end: "+strings.Join(args, " "), out.String())
	}
	m.Logf("dispatch %s: %s", strings.Join(args, " "), time.Since(began).Round(time.Millisecond))
	return out.String()
}

// hung counts the processes of dispatch with a thread in state D.
func (m *machine) hung() (n int) {
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(m, err)
	for _, comm := range comms {
		name, _ := os.ReadFile(comm)
		root, _ := os.Readlink(filepath.Join(filepath.Dir(comm), "root"))
		states, _ := filepath.Glob(filepath.Join(filepath.Dir(comm), "task/*/status"))
		waits := slices.ContainsFunc(states, func(file string) bool {
			text, _ := os.ReadFile(file)
			return strings.Contains(string(text), "\nState:\tD")
		})
		if strings.TrimSpace(string(name)) == "dispatch" && (root == string(m.root) || root == "") && waits {
			n++
		}
	}
	return n
}

func (m *machine) states() map[string]string {
	data, err := m.root.ReadFile(quarantine.File)
	require.NoError(m, err)
	var r quarantine.Record
	require.NoError(m, json.Unmarshal(data, &r))
	states := map[string]string{}
	for _, g := range r.GPUs {
		states[g.Name] = strings.TrimSpace(string(g.State) + " " + quarantine.DescribeFaults(g.ActiveFaults))
	}
	return states
}

// A GPU with files that all hang after it was seen costs no look and no hook: none reads
// it.
func TestGPUThatHangsIsQuarantinedAndReadByNoProcess(t *testing.T) {
	m := newMachine(t)
	m.startOwner()
	m.startExporter()
	before := m.dispatch("gpu", "list")
	m.sick.Hang(true)
	m.eventually(func() bool { return strings.Contains(m.states()[sickGPU], "hangs or is in reset (timeout)") })
	require.Equal(t, "in_service", m.states()[wellGPU])
	for _, line := range strings.Split(before, "\n") {
		if strings.Contains(line, "renderD") || strings.Contains(line, "MI300X") {
			identity, _, _ := strings.Cut(line, "healthy") // and then its readings
			require.Contains(t, m.dispatch("gpu", "list"), strings.TrimSpace(identity))
		}
	}
	require.Contains(t, m.dispatch("gpu", "status"), "timeout")
	require.Zero(t, m.hung())
}

// Quarantine needs no exporter.
func TestGPUThatHangsIsQuarantinedWithoutTheExporter(t *testing.T) {
	m := newMachine(t)
	m.startOwner()
	m.sick.Hang(true)
	m.eventually(func() bool { return strings.HasPrefix(m.states()[sickGPU], string(quarantine.Quarantined)) })
	require.Equal(t, "in_service", m.states()[wellGPU])
	m.sick.Hang(false)
	m.eventually(func() bool { return strings.HasPrefix(m.states()[sickGPU], string(quarantine.OnProbation)) })
	m.eventually(func() bool { return m.hung() == 0 }) // a busy machine ends the last one later
}

// A GPU of which some files answer is not healthy for that: what answered before counts.
func TestGPUWithFailedReadingsIsQuarantinedThoughOneFileAnswers(t *testing.T) {
	m := newMachine(t)
	m.startOwner()
	m.sick.Fail(map[string]syscall.Errno{"gpu_busy_percent": syscall.EIO, "mem_busy_percent": syscall.EIO, "mem_info_vram_used": syscall.EIO, "mem_info_vram_total": syscall.EIO,
		"temp2_input": syscall.EIO, "temp3_input": syscall.EIO, "power1_input": syscall.EIO})
	m.eventually(func() bool { return strings.Contains(m.states()[sickGPU], "that did before") })
	states := m.states()
	require.Contains(t, states[sickGPU], string(quarantine.Quarantined))
	require.Equal(t, "in_service", states[wellGPU])
}

// After a reboot nothing is known of a GPU that hangs: one process hangs, and no more are
// begun while it does.
func TestGPUThatHangsWhenFirstSeenHangsOneProcess(t *testing.T) {
	m := newMachine(t)
	m.sick.Hang(true)
	for range 3 {
		out := m.dispatch("gpu", "list")
		require.Contains(t, out, "not counted: "+sickGPU+" AMD GPU: it hangs")
		require.Contains(t, out, wellGPU)
		require.Eventually(t, func() bool { return m.hung() == 1 }, commandTime, 50*time.Millisecond)
	}
	m.sick.Hang(false)
	require.Eventually(t, func() bool { return !strings.Contains(m.dispatch("gpu", "list"), "not counted") }, commandTime, 50*time.Millisecond)
	require.Zero(t, m.hung())
}

// The report of a machine has the other GPU, and ends.
func TestReportHasTheGPUsThatAnswer(t *testing.T) {
	m := newMachine(t)
	m.sick.Hang(true)
	out := m.dispatch("report", "--output=/report.tar.gz")
	require.Contains(t, out, "cannot read all files of "+sickGPU+": ")
	require.Contains(t, out, "gave up after")
	files, err := exec.Command("tar", "--list", "--file", m.root.Path("/report.tar.gz")).CombinedOutput()
	require.NoError(t, err, string(files))
	require.Contains(t, string(files), "/"+wellGPU+"/gpu_busy_percent")
	require.Contains(t, string(files), "report/tree/proc/devices")
	require.NotContains(t, string(files), "/"+sickGPU+"/gpu_busy_percent")
}

package gpureset

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// names are the four GPUs of the stand-in machine, without XGMI.
var names = []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"}

const (
	childRoot, childStep = "GPURESET_ROOT", "GPURESET_KILL"
	// resetsFile counts the resets of the stand-in driver, a line for each.
	resetsFile = "/resets"
	usedFile   = "/sys/bus/pci/devices/0000:43:00.0/mem_info_vram_used"
)

// TestMain is also the child that is killed at a step.
func TestMain(m *testing.M) {
	root := os.Getenv(childRoot)
	if root == "" {
		os.Exit(m.Run())
	}
	machine := standIn(host.Root(root))
	steps, kill := 0, os.Getenv(childStep)
	machine.step = func(string) {
		if steps++; strconv.Itoa(steps) == kill {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	if err := self(machine.Host.Root, os.Getpid()); err != nil {
		panic(err)
	}
	if _, err := machine.Reset(names[1]); err != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

// self adds a process to the stand-in /proc, as leases look for it.
func self(r host.Root, pid int) error {
	dir := r.Path("/proc/" + strconv.Itoa(pid))
	if err := os.MkdirAll(dir+"/task", 0o755); err != nil {
		return err
	}
	return os.WriteFile(dir+"/stat", []byte(strconv.Itoa(pid)+
		" (dispatch) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1 1 1\n"), 0o644)
}

// standIn is a machine with a driver that frees the memory of a card that it resets.
func standIn(r host.Root) Machine {
	h := host.New(string(r))
	h.Clock = hosttest.Clock{T: hosttest.Now}
	return Machine{Host: h,
		Leases: &lease.Leases{Dir: r.Path("/run/concourse-ci-machine/gpu-leases"), GPUs: names, Proc: r.Path("/proc"),
			Cgroup: r.Path("/sys/fs/cgroup"), Euid: uint32(os.Geteuid()), Now: h.Now},
		reset: func(string) error {
			f, err := os.OpenFile(r.Path(resetsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err == nil {
				_, err = f.WriteString("reset\n")
				err = errors.Join(err, f.Close(), os.WriteFile(r.Path(usedFile), []byte("10485760\n"), 0o644))
			}
			return err
		}}
}

// machine is a stand-in machine with a GPU 1 that has been quarantined since a minute.
func machine(t *testing.T, kind health.Kind) Machine {
	t.Helper()
	r := hosttest.Host(t, "mi210x4")
	require.NoError(t, r.MkdirAll("/run", 0o755))
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "5f0c-boot\n")
	require.NoError(t, self(r, os.Getpid()))
	for i, name := range names {
		for _, minor := range []int{i + 1, 128 + i} {
			dir := "/sys/kernel/debug/dri/" + strconv.Itoa(minor)
			hosttest.Put(t, r, dir+"/name", "amdgpu dev="+name+" unique="+name+"\n")
			hosttest.Put(t, r, dir+"/"+recoverFile, "gpu recover 0\n")
		}
	}
	for node := range 9 {
		hosttest.Put(t, r, kfdDir+"/topology/nodes/"+strconv.Itoa(node)+"/gpu_id", strconv.Itoa(1000+node)+"\n")
		require.NoError(t, r.MkdirAll(kfdDir+"/topology/nodes/"+strconv.Itoa(node)+"/io_links", 0o755))
	}
	hosttest.Put(t, r, usedFile, "34359738368\n")
	out := hosttest.Now.Add(-time.Minute)
	rec := quarantine.Record{At: hosttest.Now, Policy: quarantine.Auto}
	for i, name := range names {
		rec.GPUs = append(rec.GPUs, quarantine.GPU{Ref: quarantine.Ref{Name: name, Index: i}, State: quarantine.InService})
	}
	g := &rec.GPUs[1]
	g.State, g.Since, g.QuarantinedSince, g.QuarantinedBy = quarantine.Quarantined, out, &out, quarantine.ByHealth
	g.Fault = &health.Fault{Kind: kind}
	require.NoError(t, quarantine.RecordFile.Write(r, rec))
	return standIn(r)
}

func resets(t *testing.T, r host.Root) int {
	t.Helper()
	text, err := r.ReadFile(resetsFile)
	if !r.Exists(resetsFile) {
		return 0
	}
	require.NoError(t, err)
	return strings.Count(string(text), "reset\n")
}

func free(t *testing.T, m Machine) {
	t.Helper()
	states, _, err := m.Leases.Read()
	require.NoError(t, err)
	for _, s := range states {
		require.False(t, s.Held, "%s is still held by %s", s.GPU, s.Container)
	}
}

func TestIdleGPUIsResetOnceForAFault(t *testing.T) {
	for _, kind := range []health.Kind{health.Hang, "leaked_memory", "node_fails"} {
		m := machine(t, kind)
		w, err := m.Look()
		require.NoError(t, err)
		require.Equal(t, names[1], w.Plan())
		a, err := m.Reset(names[1])
		require.NoError(t, err)
		require.Equal(t, Attempt{Name: names[1], Group: []string{names[1]}, Began: hosttest.Now, Ended: hosttest.Now, Result: Done}, a)
		free(t, m)
		used, err := m.Host.ReadText(usedFile)
		require.NoError(t, err)
		require.Equal(t, "10485760", strings.TrimSpace(used))

		_, err = m.Reset(names[1])
		require.EqualError(t, err, "cannot reset GPU 0000:43:00.0: a reset did not end its fault")
		require.Equal(t, 1, resets(t, m.Host.Root))
	}
}

func TestKilledResetLeavesNothingHeldAndIsNeverRepeated(t *testing.T) {
	const steps = 5 // lease, record begun, look, reset, record done
	for step := 1; step <= steps+1; step++ {
		t.Run(strconv.Itoa(step), func(t *testing.T) {
			m := machine(t, health.Hang)
			run := func(kill int) error {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childRoot+"="+string(m.Host.Root), childStep+"="+strconv.Itoa(kill))
				err := cmd.Run()
				require.NoError(t, os.RemoveAll(m.Host.Path("/proc/"+strconv.Itoa(cmd.Process.Pid))))
				return err
			}
			err := run(step)
			var ended *exec.ExitError
			if step > steps {
				require.NoError(t, err, "there are no more steps")
			} else {
				require.ErrorAs(t, err, &ended)
				require.True(t, ended.Sys().(syscall.WaitStatus).Signaled(), "%v", err)
			}
			free(t, m)
			again := run(0)
			before := step <= 2 // of the record
			require.Equal(t, before, again == nil)
			want := 1
			if step == 3 || step == 4 { // it may have been reset
				want = 0
			}
			require.Equal(t, want, resets(t, m.Host.Root))
		})
	}
}

func TestOneResetAtATime(t *testing.T) {
	m := machine(t, health.Hang)
	second := m
	var failed error
	m.step = func(what string) {
		if what == "reset" {
			_, failed = second.Reset(names[1])
		}
	}
	_, err := m.Reset(names[1])
	require.NoError(t, err)
	require.ErrorIs(t, failed, host.ErrLocked)
	require.Equal(t, 1, resets(t, m.Host.Root))
}

func TestGPUWithAnUnknownHiveIsNotReset(t *testing.T) {
	const refused = "cannot reset GPU 0000:43:00.0: cannot see the hive of GPU 0000:43:00.0: "
	id := func(t *testing.T, r host.Root, name, text string) {
		hosttest.Put(t, r, "/sys/bus/pci/devices/"+name+"/xgmi_hive_info/xgmi_hive_id", text)
	}
	node := func(t *testing.T, r host.Root) string {
		return kfdDir + "/topology/nodes/" + strconv.Itoa(kfdNode(t, r))
	}
	for why, change := range map[string]func(*testing.T, host.Root){
		refused + "it is not in KFD's topology": func(t *testing.T, r host.Root) {
			require.NoError(t, os.RemoveAll(r.Path(node(t, r))))
		},
		refused + "open ": func(t *testing.T, r host.Root) { require.NoError(t, os.Remove(r.Path(node(t, r)+"/io_links"))) },
		refused + "read ": func(t *testing.T, r host.Root) {
			require.NoError(t, r.MkdirAll(node(t, r)+"/io_links/1/properties", 0o755))
		},
		refused + "cannot read link 1 of node ": func(t *testing.T, r host.Root) {
			hosttest.Put(t, r, node(t, r)+"/io_links/1/properties", "type 11\n")
		},
		refused + "it has a link to node 77 of KFD, which is not a known GPU": func(t *testing.T, r host.Root) {
			hosttest.Put(t, r, node(t, r)+"/io_links/1/properties",
				fmt.Sprintf("type 11\nnode_from %d\nnode_to 77\nweight 15\n", kfdNode(t, r)))
		},
		"process 77 has GPU 0000:83:00.0 open": func(t *testing.T, r host.Root) { // only the driver's id joins them
			id(t, r, names[1], "4711\n")
			id(t, r, names[2], "4711\n")
			id(t, r, names[3], "4712\n")
			link(t, r, "/proc/77/task/77/fd/5", "/dev/dri/renderD130")
		},
	} {
		t.Run(why, func(t *testing.T) {
			m := machine(t, health.Hang)
			change(t, m.Host.Root)
			_, err := m.Reset(names[1])
			require.ErrorContains(t, err, why)
			require.Zero(t, resets(t, m.Host.Root))
		})
	}
}

// kfdNode returns the node of GPU 1 in KFD.
func kfdNode(t *testing.T, r host.Root) int {
	t.Helper()
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	return inv.Find(names[1]).KFDNode
}

func TestContainerGetsNoGPUDuringItsReset(t *testing.T) {
	m := machine(t, health.Hang)
	refused := 0
	m.step = func(what string) {
		if what != "reset" {
			return
		}
		call := lease.Call{Container: "c1", Bundle: "/b", PidFile: "/none", Cgroup: "c1", PID: os.Getpid()}
		_, err := m.Leases.Take(call, lease.Want{Of: []int{1}, Count: 1})
		require.ErrorContains(t, err, "0 of the 1 that the task names are free")
		require.ErrorContains(t, m.Leases.HoldForPod("n/p/c", []int{1}, nil), "0 of the 1")
		refused++
	}
	_, err := m.Reset(names[1])
	require.NoError(t, err)
	require.Equal(t, 1, refused)
}

func TestResetNeedsTheCardsOwnFile(t *testing.T) {
	m := machine(t, health.Hang)
	for _, dir := range []string{"2", "129"} {
		hosttest.Put(t, m.Host.Root, "/sys/kernel/debug/dri/"+dir+"/name", "amdgpu dev=0000:83:00.0 unique=0000:83:00.0\n")
	}
	_, err := m.Reset(names[1])
	require.EqualError(t, err, "cannot reset GPU 0000:43:00.0: the kernel has no amdgpu_gpu_recover for it in /sys/kernel/debug/dri (is debugfs mounted?)")
	require.Zero(t, resets(t, m.Host.Root))
}

func TestErrorThatTheDriverWritesIsAFailure(t *testing.T) {
	for text, want := range map[string]Result{"-62\n": Failed, "gpu recover -5\n": Failed, "0\n": Done, "gpu recover 0\n": Done,
		"gpu recover\n": Done} {
		m := machine(t, health.Hang)
		for _, dir := range []string{"2", "129"} {
			hosttest.Put(t, m.Host.Root, debugDRI+"/"+dir+"/"+recoverFile, text)
		}
		a, err := m.Reset(names[1])
		require.NoError(t, err)
		require.Equal(t, want, a.Result, text)
		if text == "-62\n" {
			require.Equal(t, "the driver failed with -62", a.Reason)
		}
		h, err := readHistory(m.Host.Root)
		require.NoError(t, err)
		require.Equal(t, []Attempt{a}, h.Attempts)
	}
}

func TestDriverThatRefusesIsRecorded(t *testing.T) {
	m := machine(t, health.Hang)
	m.reset = func(string) error { return unix.EIO }
	a, err := m.Reset(names[1])
	require.NoError(t, err)
	require.Equal(t, Failed, a.Result)
	h, err := readHistory(m.Host.Root)
	require.NoError(t, err)
	require.Equal(t, []Attempt{a}, h.Attempts)
	hosttest.Put(t, m.Host.Root, historyFile.Path, "{")
	_, err = m.Look()
	require.ErrorContains(t, err, "remove the file if no GPU was reset today")
}

//go:build e2e

package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// benched is a machine with GPUs 0 and 1 of which the driver can fix the clocks. Their files are
// plain ones.
type benched struct{ *machine }

func newBench(t *testing.T) benched {
	t.Helper()
	m := benched{newMachine(t)}
	for _, dir := range []string{"/proc", "/sys/fs/cgroup"} { // of the kernel that has the runs
		require.NoError(t, os.RemoveAll(m.root.Path(dir)))
		require.NoError(t, os.MkdirAll(filepath.Dir(m.root.Path(dir)), 0o755))
		require.NoError(t, os.Symlink(dir, m.root.Path(dir)))
	}
	for gpu := range 2 {
		hosttest.Put(t, m.root, levelFile(gpu), "auto\n")
	}
	return m
}

func levelFile(gpu int) string {
	return fixedclocks.Devices + "/" + []string{"0000:23:00.0", "0000:43:00.0"}[gpu] + "/power_dpm_force_performance_level"
}

func (m benched) level(gpu int) string {
	text, err := m.root.ReadText(levelFile(gpu))
	require.NoError(m.t, err)
	word, _, _ := strings.Cut(text, "\n") // a file of sysfs has no more
	return word
}

// restored waits until both GPUs have their own clocks, and nothing of a run is left.
func (m benched) restored() {
	m.t.Helper()
	m.until("restored clocks", func() bool { return m.level(0) == "auto" && m.level(1) == "auto" })
	m.until("free GPUs", func() bool { return m.held() == 0 })
	m.until("no record of a run", func() bool {
		left, err := m.root.ReadDir(workstation.ClocksDir(""))
		return err == nil && len(left) == 0
	})
}

func TestBenchHasFixedClocksUntilItEnds(t *testing.T) {
	m := newBench(t)
	r := m.run("run", "--bench", "--gpu-id", "0,1", "--", "sh", "-c",
		"head -n 1 "+m.root.Path(levelFile(0))+" "+m.root.Path(levelFile(1))+`; cat "$CHARM_ROOT$GPU_FIXED_CLOCKS_RECORD"`)
	require.Equal(t, 0, r.status, r.stderr)
	require.Equal(t, 2, strings.Count(r.out, "\nprofile_standard\n"), r.out)
	require.Contains(t, r.out, `{"valid": false, "reason": "the GPU has not been checked yet; it is checked within seconds", "level": "profile_standard"`)
	require.Regexp(t, `has GPU 0 .* with fixed clocks \(profile_standard\)\n$`, r.stderr)
	m.restored()
	m.until("a recorded end", func() bool {
		ends, err := runend.File.Read(m.root)
		return err == nil && len(ends.Ends) == 1 && ends.Ends[0].Clocks == fixedclocks.Standard
	})
	r = m.run("run", "--gpu-id", "0", "--", "sh", "-c", "head -n 1 "+m.root.Path(levelFile(0))+"; env")
	require.True(t, strings.HasPrefix(r.out, "auto\n"), r.out)
	require.NotContains(t, r.out, "GPU_FIXED_CLOCKS_RECORD")
}

func TestClocksAreRestoredAfterKills(t *testing.T) {
	for name, kill := range map[string]func(m benched, client *exec.Cmd){
		"client": func(_ benched, client *exec.Cmd) { _ = client.Process.Kill() },
		"service, then client": func(m benched, client *exec.Cmd) {
			m.kill()
			m.start()
			require.Equal(m.t, "profile_standard", m.level(0), "the run goes on")
			_ = client.Process.Kill()
		},
		"both at once": func(m benched, client *exec.Cmd) {
			m.kill()
			_ = client.Process.Kill()
			m.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newBench(t)
			client, _ := m.background(ada, "--bench", "--gpu-id", "0,1")
			require.Equal(t, "profile_standard", m.level(0))
			require.Equal(t, "profile_standard", m.level(1))
			kill(m, client)
			_ = client.Wait()
			m.restored()
		})
	}
}

// The owner of the GPUs restores them if no lease service runs.
func TestOwnerOfTheGPUsRestoresClocksWithoutTheService(t *testing.T) {
	m := newBench(t)
	client, end := m.background(ada, "--bench", "--gpu-id", "0")
	m.kill()
	require.Equal(t, 0, m.run("gpu", "fixed-clocks", "0000:23:00.0", "back").status)
	require.Equal(t, "profile_standard", m.level(0), "the run has the GPU")
	end()
	_ = client.Wait()
	m.until("restored clocks", func() bool {
		m.run("gpu", "fixed-clocks", "0000:23:00.0")
		return m.level(0) == "auto"
	})
	m.start()
	m.restored()
}

// A driver that hangs costs the run with fixed clocks its wait, and no other run.
func TestGPUThatHangsRefusesABenchAlone(t *testing.T) {
	m := newBench(t)
	require.NoError(t, os.Remove(m.root.Path(levelFile(0))))
	require.NoError(t, unix.Mkfifo(m.root.Path(levelFile(0)), 0o600))
	job := exec.Command("sleep", "10000")
	require.NoError(t, job.Start())
	defer func() { _ = job.Process.Kill(); _ = job.Wait() }()
	group := func() string {
		text, err := os.ReadFile("/proc/" + itoa(job.Process.Pid) + "/cgroup")
		require.NoError(t, err)
		return string(text)
	}
	before := group()
	waits := make(chan result)
	go func() {
		waits <- m.end(m.command(0, "lease", "--bench", "--gpu-id", "0,1", "--pid", itoa(job.Process.Pid)))
	}()
	m.until("GPUs with clocks that are set", func() bool { return m.held() == 2 })
	other := m.run("run", "--gpus", "2", "--wait", "0", "--", "true")
	require.Equal(t, 0, other.status, other.stderr)
	r := <-waits
	require.Equal(t, 125, r.status)
	require.Contains(t, r.stderr, "cannot fix the clocks: GPU 0000:23:00.0 does not answer; without --bench they follow load and heat")
	require.Empty(t, r.out)
	require.Equal(t, before, group(), "the process is where it was")
	require.Equal(t, 0, m.held())
	require.Equal(t, "auto", m.level(1))
}

func TestBenchIsRefusedAtOnceWithoutADriverThatFixesClocks(t *testing.T) {
	m := newBench(t)
	m.background(0, "--gpus", "4")
	r := m.run("run", "--bench", "--gpu-id", "2", "--", "true")
	require.Equal(t, 125, r.status)
	require.Equal(t, "gpukit: cannot lease 1 GPU with fixed clocks: the clocks of GPU 2 cannot be fixed: its driver has no "+
		"power_dpm_force_performance_level; run it without --bench\n", r.stderr)
}

// The client asks the next service again, which finds the lease and fixes the clocks.
func TestBenchBeginsAfterAKillOfTheServiceThatFixesItsClocks(t *testing.T) {
	m := newBench(t)
	require.NoError(t, os.Remove(m.root.Path(levelFile(0))))
	require.NoError(t, unix.Mkfifo(m.root.Path(levelFile(0)), 0o600))
	done := make(chan result)
	c := m.command(0, "run", "--bench", "--gpu-id", "0", "--", "head", "-n", "1", m.root.Path(levelFile(0)))
	go func() { done <- m.end(c) }()
	var child []string
	m.until("a process that hangs", func() bool {
		out, _ := exec.Command("pgrep", "-P", itoa(m.service.Process.Pid), "-f", " fix run-").Output()
		child = strings.Fields(string(out))
		return len(child) == 1
	})
	m.kill()
	require.NoError(t, exec.Command("kill", "-9", child[0]).Run())
	require.NoError(t, os.Remove(m.root.Path(levelFile(0))))
	hosttest.Put(t, m.root, levelFile(0), "auto\n")
	m.start()
	r := <-done
	require.Equal(t, 0, r.status, r.stderr)
	require.Equal(t, "profile_standard\n", r.out)
	m.restored()
}

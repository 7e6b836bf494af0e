//go:build e2e

package run

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// nodes prints the nodes that the kernel does not refuse. They have no driver.
const nodes = `for n in 0 1 2 3; do cat $NODES/$n 2>&1 | grep -q 'No such device' && echo node $n; done; `

func TestRunHasItsGPUsAndNoOther(t *testing.T) {
	m := newMachine(t)
	r := m.run("run", "--gpu-id", "1,3", "--name", "a test", "--", "sh", "-c",
		nodes+`env | grep -E '^(ROCR|HIP|CUDA|AMD)_VISIBLE|^GPU_DEVICE|^GPUKIT_RUN' | sort; exit 7`)
	require.Equal(t, 7, r.status, r.stderr)
	require.Regexp(t, `^node 1
node 3
AMD_VISIBLE_DEVICES=GPU-[0-9a-f]{16},GPU-[0-9a-f]{16}
CUDA_VISIBLE_DEVICES=0,1
GPUKIT_RUN=run-[0-9a-f]{12}
GPU_DEVICE_ORDINAL=0,1
HIP_VISIBLE_DEVICES=0,1
ROCR_VISIBLE_DEVICES=0,1
$`, r.out)
	require.Regexp(t, `^gpukit: run-[0-9a-f]{12} has GPU 1 \(AMD INSTINCT MI210 gfx90a, 0000:43:00.0\), GPU 3 \(.*\)\n$`,
		r.stderr)
	m.until("free GPUs", func() bool { return m.held() == 0 })
	m.until("a recorded end", func() bool {
		ends, err := runend.File.Read(m.root)
		return err == nil && len(ends.Ends) == 1 && ends.Ends[0].Exit != nil && *ends.Ends[0].Exit == 7 &&
			ends.Ends[0].Title == "a test" && len(ends.Ends[0].GPUs) == 2
	})
	m.untilNoGroup()
}

// Its driver has nodes and no compute stack.
func TestRunCannotOpenAGPUThatTheMachineCannotUse(t *testing.T) {
	m := newMachine(t)
	const gpu3 = "/sys/bus/pci/devices/0000:c3:00.0"
	require.NoError(t, os.Remove(m.root.Path(gpu3+"/driver")))
	hosttest.Put(t, m.root, gpu3+"/uevent", "DRIVER=radeon\nPCI_CLASS=30000\nPCI_ID=1002:6810\nPCI_SLOT_NAME=0000:c3:00.0\n")
	r := m.run("run", "--gpus", "3", "--", "sh", "-c", nodes)
	require.Equal(t, "node 0\nnode 1\nnode 2\n", r.out, r.stderr)
}

func TestExitStatusIsTheCommands(t *testing.T) {
	m := newMachine(t)
	for command, want := range map[string]int{"true": 0, "exit 3": 3, "kill -TERM $$": 143, "exit 125": 125} {
		require.Equal(t, want, m.run("run", "--", "sh", "-c", command).status, command)
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		text   string
	}{
		"missing":        {[]string{"--", "/no/such"}, 127, "gpukit: cannot start /no/such: not found\n"},
		"not executable": {[]string{"--", "/etc/hostname"}, 126, "gpukit: cannot start /etc/hostname: "},
		"too many": {[]string{"--gpus=5", "--", "true"}, 125,
			"gpukit: cannot lease 5 GPUs: this machine has 4; see gpukit gpu list\n"},
		"unknown": {[]string{"--gpu-id=7", "--", "true"}, 125, `cannot lease GPU "7": this machine has 0, 1, 2, 3`},
		"architecture": {[]string{"--arch=gfx942", "--", "true"}, 125,
			"cannot lease 1 GPU of gfx942: this machine has 0"},
		"memory":            {[]string{"--memory=900GiB", "--", "true"}, 125, "of memory: this machine has 0"},
		"both":              {[]string{"--gpus=1", "--gpu-id=1", "--", "true"}, 2, "cannot use --gpus and --gpu-id together"},
		"none":              {[]string{"--gpus=0", "--", "true"}, 2, "cannot lease 0 GPUs"},
		"no command":        {nil, 2, "want gpukit run"},
		"not a time":        {[]string{"--wait=soon", "--", "true"}, 2, `cannot wait "soon"`},
		"not a size":        {[]string{"--memory=much", "--", "true"}, 2, `"much" is not a size`},
		"its own arguments": {[]string{"sh", "-c", "exit 9"}, 9, "has GPU"},
	} {
		r := m.run(append([]string{"run"}, c.args...)...)
		require.Equal(t, c.status, r.status, "%s: %s", name, r.stderr)
		require.Contains(t, r.stderr, c.text, name)
	}
}

func TestRunsWaitForGPUs(t *testing.T) {
	m := newMachine(t)
	_, end := m.background(0, "--gpus", "4", "--name", "the first")
	r := m.run("run", "--wait", "0", "--", "true")
	require.Equal(t, 125, r.status)
	require.Regexp(t, `^gpukit: cannot lease 1 GPU: 0 of 4 are free; .* are held by run-[0-9a-f]{12} \(the first\) since`,
		r.stderr)
	r = m.run("run", "--wait", "1500ms", "--", "true")
	require.Equal(t, 125, r.status)
	require.Contains(t, r.stderr, "waiting for")
	require.Contains(t, r.stderr, "; waited 1.5s\n")

	c := m.command(0, "run", "--", "true")
	require.NoError(t, c.Start())
	end()
	require.NoError(t, c.Wait())
}

// What a run leaves behind has its GPU until it has ended.
func TestRestOfARunIsEnded(t *testing.T) {
	m := newMachine(t)
	r := m.run("run", "--", "sh", "-c",
		`trap "" TERM; setsid sh -c 'trap "" TERM; while :; do sleep 1; done' >/dev/null 2>&1 & exit 0`)
	require.Equal(t, 0, r.status, r.stderr)
	require.Equal(t, 1, m.held())
	m.until("a free GPU", func() bool { return m.held() == 0 })
	require.Contains(t, m.log.String(), "sent SIGTERM to")
	require.Contains(t, m.log.String(), "sent SIGKILL to")
	m.until("an end", func() bool { return strings.Contains(m.log.String(), " has ended\n") })
}

func TestLeaseIsForARunningProcess(t *testing.T) {
	m := newMachine(t)
	job := exec.Command("sh", "-c", `read x; `+nodes+`read x`)
	job.Env = append(job.Environ(), "NODES="+m.nodes)
	in, err := job.StdinPipe()
	require.NoError(t, err)
	out, err := job.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, job.Start())
	r := m.run("lease", "--gpu-id", "2", "--pid", itoa(job.Process.Pid))
	require.Equal(t, 0, r.status, r.stderr)
	require.Contains(t, r.out, "HIP_VISIBLE_DEVICES=0\n")
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	text := make([]byte, 100)
	n, err := out.Read(text)
	require.NoError(t, err)
	require.Equal(t, "node 2\n", string(text[:n]))
	again := m.run("lease", "--pid", itoa(job.Process.Pid))
	require.Equal(t, r.out, again.out, "a service that was killed may not have answered")
	r = m.run("lease", "--gpus", "2", "--pid", itoa(job.Process.Pid))
	require.Equal(t, 125, r.status)
	require.Regexp(t, `process \d+ is part of run-`, r.stderr)
	require.Equal(t, 1, m.held())
	in.Close()
	_ = job.Wait()
	m.until("a free GPU", func() bool { return m.held() == 0 })
}

//go:build e2e

package runners

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// worker runs one job as GitHub's Runner.Worker does, with its sources at 258d6c85 (August 2026):
//
//   - JobExtension.cs: the hook of the start is before the containers and steps, the hook of
//     the end after them, both in any case.
//   - JobHookProvider.cs, HostContext.cs, ScriptHandlerHelpers.cs: a hook runs on the host, with
//     bash and these arguments, or with "sh -e" without bash. ADR 1751 has "bash -e".
//   - StepsRunner.cs, ScriptHandler.cs: steps get the variables of GITHUB_ENV, hooks do not.
//   - FileCommandManager.cs: each step and hook has new files for GITHUB_ENV and
//     GITHUB_STEP_SUMMARY.
//   - TempDirectoryManager.cs: RUNNER_TEMP is emptied before each job.
const worker = `
shell=$1
steps=$2
export RUNNER_TEMP=$PWD/_work/_temp GITHUB_REPOSITORY=team/project GITHUB_JOB=unit GITHUB_RUN_ID=77
rm -rf "$RUNNER_TEMP"
mkdir -p "$RUNNER_TEMP" summaries
result=0

hook() {
    [ -f "$1" ] || { echo "File doesn't exist"; return 1; }
    : >"$RUNNER_TEMP/env_$2"
    GITHUB_ENV=$RUNNER_TEMP/env_$2 GITHUB_STEP_SUMMARY=$PWD/summaries/$2 $shell "$1"
}

hook "$ACTIONS_RUNNER_HOOK_JOB_STARTED" started || result=1
if [ $result = 0 ]; then
    mapfile -t variables <"$RUNNER_TEMP/env_started"
    env "${variables[@]}" bash --noprofile --norc -e -o pipefail "$steps" || result=1
fi
hook "$ACTIONS_RUNNER_HOOK_JOB_COMPLETED" completed || result=1
exit $result
`

// github is a configured runner.
type github struct {
	*machine
	worker string
}

func newGitHub(t *testing.T) github {
	t.Helper()
	m := newMachine(t)
	m.write("runner/config.sh", "")
	m.write("runner/.env", "LANG=C.UTF-8\n")
	m.write("runner/worker.sh", worker)
	out := m.gpukit("runners", "install", "github", "--path=/home/ci/runner")
	require.Contains(t, out, "+ACTIONS_RUNNER_HOOK_JOB_STARTED=/usr/share/gpukit/runners/github/job-started.sh\n")
	return github{m, m.shellAs("runner/bin/Runner.Worker")}
}

// env reads the file .env as Runner.Listener does (Program.cs).
func (g github) env(more ...string) (env []string) {
	g.t.Helper()
	f, err := os.Open(g.home + "/runner/.env")
	require.NoError(g.t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), "="); ok && name != "" {
			if strings.HasPrefix(value, "/usr/share/") {
				value = g.root.Path(value)
			}
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}

// argv returns the command of a job with these steps.
func (g github) argv(shell, steps string) []string {
	return []string{g.worker, g.home + "/runner/worker.sh", shell, g.write("steps.sh", steps)}
}

// shells run hooks.
var shells = []string{"bash --noprofile --norc -e -o pipefail", "bash -e", "sh -e"}

func TestJobOfGitHubHasGPUs(t *testing.T) {
	for _, shell := range shells {
		g := newGitHub(t)
		out, status := g.run(g.env("GPUKIT_GPUS=2"), g.argv(shell, `
			echo "step: $HIP_VISIBLE_DEVICES of $GPUKIT_RUN"
			grep -c gpukit-run- /proc/self/cgroup`)...)
		require.Zero(t, status, out)
		require.Regexp(t, `gpukit: run-[0-9a-f]{12} has GPU \d .*, GPU \d .*\nstep: 0,1 of run-[0-9a-f]{12}\n1\n`,
			out)
		summary, err := os.ReadFile(g.home + "/summaries/completed")
		require.NoError(t, err)
		require.Regexp(t, `^### GPUs\n\nrun-[0-9a-f]{12} has GPU \d .*, GPU \d .*\n\nfor \d+ minutes\n\n    GPU 0 `,
			string(summary))
		require.Regexp(t, `    After the job, on \S+: sudo gpukit why run-[0-9a-f]{12}\n$`, string(summary))
		g.free()
	}
}

// The runner's worker still runs in the hook after the steps, and gives no result to it.
func TestSummaryOfGitHubHasTheVerdictSoFar(t *testing.T) {
	const (
		began  = `until gpukit why "$GPUKIT_RUN" >why; do sleep 0.1; done; `
		others = "amdgpu 0000:43:00.0: amdgpu: Process information: process secret pid 7 thread secret pid 7"
		reset  = "amdgpu 0000:43:00.0: amdgpu: GPU reset(1) succeeded!"
	)
	for name, c := range map[string]struct {
		steps  string
		status int
		want   string
	}{
		"no sign": {began, 0, `\n    verdict so far, without an exit status: none, as no sign shows a failure\n`},
		"fault of its GPU": {began + `printf '4,1,1,-;%s\n' "` + others + `" "` + reset + `" >kernel; ` +
			`until gpukit why "$GPUKIT_RUN" | grep -q "kernel: "; do sleep 0.1; done; exit 1`, 1,
			`(?s)\n    verdict so far, without an exit status: gpu\n.*` +
				`\n      because: GPU 0000:43:00.0 hung or was reset at .*\n    kernel: \S+ ` + regexp.QuoteMeta(reset) + `\n`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGitHub(t)
			log, err := os.Open(g.write("kernel", ""))
			require.NoError(t, err)
			defer log.Close()
			suite.Record(t, suite.Recorder(t, g.root, lines{bufio.NewReader(log)}))
			out, status := g.run(g.env("GPUKIT_GPUS=4"), g.argv(shells[0], c.steps)...)
			require.Equal(t, c.status, status, out)
			summary, err := os.ReadFile(g.home + "/summaries/completed")
			require.NoError(t, err)
			require.Regexp(t, c.want, string(summary))
			require.NotContains(t, string(summary), "secret")
			g.free()
		})
	}
}

// lines reads one line at a time, as the kernel's log does.
type lines struct{ *bufio.Reader }

func (l lines) Read(p []byte) (int, error) {
	line, err := l.ReadSlice('\n')
	return copy(p, line), err
}

func TestLeaseOfGitHubNamesTheJob(t *testing.T) {
	g := newGitHub(t)
	c := g.command(g.env(), g.argv(shells[0], "echo started; exec sleep 10000")...)
	pipe, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(pipe).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	require.Len(t, g.held(), 1)
	require.Contains(t, g.held()[0], "team/project")
	kill(t, c) // its step stays, and is ended
	g.free()
}

func TestJobOfGitHubFailsWithoutGPUs(t *testing.T) {
	g := newGitHub(t)
	out, status := g.run(g.env("GPUKIT_GPUS=5"), g.argv(shells[0], "echo a step")...)
	require.Equal(t, 1, status)
	require.Contains(t, out, "gpukit: cannot lease 5 GPUs: this machine has 4")
	require.NotContains(t, out, "a step")
	out, status = g.run(g.env("GPUKIT_BENCH=1"), g.argv(shells[0], "echo a step")...)
	require.Equal(t, 1, status)
	require.Contains(t, out, "gpukit: cannot lease 1 GPU with fixed clocks: ")

	busy, status := g.run(g.env("GPUKIT_GPUS=4"), g.argv(shells[0],
		`env -u GPUKIT_RUN gpukit run --wait 0 -- true || echo "refused: $?"`)...)
	require.Zero(t, status, busy)
	require.Contains(t, busy, "refused: 125\n")
	g.free()
}

func TestJobOfGitHubWithoutGPUsLeasesNone(t *testing.T) {
	g := newGitHub(t)
	out, status := g.run(g.env("GPUKIT_GPUS=0"), g.argv(shells[0], `echo "step: ${GPUKIT_RUN-none}"`)...)
	require.Zero(t, status, out)
	require.Equal(t, "step: none\n", out)
	require.NoFileExists(t, g.home+"/summaries/completed")
}

// A program of another name is no worker, and the hooks read what a job wrote.
func TestHooksOfGitHubRefuseOtherCallers(t *testing.T) {
	g := newGitHub(t)
	out, status := g.run(g.env(), "bash", "-c", `RUNNER_TEMP=$PWD bash -e "$ACTIONS_RUNNER_HOOK_JOB_STARTED"`)
	require.Equal(t, 1, status)
	require.Contains(t, out, "cannot lease GPUs: this hook was not started by Runner.Worker\n")
	require.Empty(t, g.held())

	for _, text := range []string{"GPUKIT_RUN=--json", "GPUKIT_RUN=$(touch owned)", "GPUKIT_RUN=", ""} {
		g.write("gpukit.env", text+"\n")
		out, status = g.run(g.env(), "bash", "-c",
			`RUNNER_TEMP=$PWD GITHUB_STEP_SUMMARY=$PWD/summary bash -e "$ACTIONS_RUNNER_HOOK_JOB_COMPLETED"`)
		require.Zero(t, status)
		require.Empty(t, out, text)
		require.NoFileExists(t, filepath.Join(g.home, "owned"))
	}
}

// Two jobs of two runners wait for the same GPUs, and none is lost.
func TestJobsOfGitHubWaitForEachOther(t *testing.T) {
	g := newGitHub(t)
	steps := g.argv(shells[0], `mkdir ../taken && rmdir ../taken`)
	env := g.env("GPUKIT_GPUS=4")
	ended := make(chan int, 3)
	for i := range 3 {
		c := g.command(env, steps...)
		c.Dir = filepath.Dir(g.write("job"+itoa(i)+"/x", ""))
		require.NoError(t, c.Start())
		go func() {
			_ = c.Wait()
			ended <- c.ProcessState.ExitCode()
		}()
	}
	for range 3 {
		select {
		case status := <-ended:
			require.Zero(t, status)
		case <-time.After(2 * time.Minute):
			require.Fail(t, "a job waits for ever")
		}
	}
	g.free()
}

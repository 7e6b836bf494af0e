//go:build e2e

package runners

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bootstrap runs one job as "buildkite-agent bootstrap" does, with the agent's sources at
// 04d95502 (hook/scriptwrapper.go, bootstrap.go): a wrapper for bash reads the hook in its own
// shell and stores the environment after it, which the command then has. pre-exit runs in any
// case.
const bootstrap = `
hook() {
    printf '%s\n' ". \"$1\"" 'export BUILDKITE_HOOK_EXIT_STATUS=$?' 'env -0 >after' \
        'exit $BUILDKITE_HOOK_EXIT_STATUS' >wrapper
    : >after
    bash wrapper
    status=$?
    mapfile -d '' variables <after
    for v in "${variables[@]}"; do export "$v"; done
    [ "${#variables[@]}" -gt 0 ] || { echo "early exited"; return 1; }
    return $status
}
export BUILDKITE_PIPELINE_SLUG=project BUILDKITE_ORGANIZATION_SLUG=team BUILDKITE_JOB_ID=44
hook "$HOOKS/environment" && bash -e command
result=$?
hook "$HOOKS/pre-exit"
exit $result
`

func newBuildkite(t *testing.T) (m *machine, env []string, program string) {
	t.Helper()
	m = newMachine(t)
	m.write("etc/buildkite-agent.cfg", "")
	m.write("etc/hooks/environment", "#!/bin/bash\nexport BEFORE=1")
	out := m.gpukit("runners", "install", "buildkite", "--path=/home/ci/etc")
	require.Contains(t, out, "+. /usr/share/gpukit/runners/buildkite/pre-exit || return 1")
	for _, name := range []string{"environment", "pre-exit"} {
		data, err := os.ReadFile(m.home + "/etc/hooks/" + name)
		require.NoError(t, err)
		m.write("etc/hooks/"+name, strings.ReplaceAll(string(data), ". /usr/", ". "+m.root.Path("/usr")+"/"))
	}
	m.write("bootstrap", bootstrap)
	m.write("tools/buildkite-agent", "#!/bin/sh\necho \"$@\"\ncat\n") // only annotates
	return m, []string{"HOOKS=" + m.home + "/etc/hooks"}, m.shellAs("agent/buildkite-agent")
}

func TestJobOfBuildkiteHasGPUs(t *testing.T) {
	m, env, program := newBuildkite(t)
	m.write("command", `echo "command: $BEFORE $HIP_VISIBLE_DEVICES of $GPUKIT_RUN"
		grep -c gpukit-run- /proc/self/cgroup; exit 3`)
	out, status := m.run(append(env, "GPUKIT_GPUS=2"), program, "bootstrap")
	require.Equal(t, 3, status, out)
	require.Regexp(t, `has GPU \d .*\ncommand: 1 0,1 of run-[0-9a-f]{12}\n1\n`, out)
	require.Regexp(t, `annotate --style info --context gpukit-44\n    GPU 0   healthy `, out)
	require.Regexp(t, `    After the job, on \S+: sudo gpukit why run-[0-9a-f]{12}\n$`, out)
	m.free()

	m.write("command", `echo "command: ${GPUKIT_RUN-none}"`)
	out, status = m.run(append(env, "GPUKIT_GPUS=0"), program, "bootstrap")
	require.Zero(t, status, out)
	require.Equal(t, "command: none\n", out)
}

func TestJobOfBuildkiteFailsWithoutGPUs(t *testing.T) {
	m, env, program := newBuildkite(t)
	m.write("command", `echo a command`)
	out, status := m.run(append(env, "GPUKIT_GPUS=5"), program, "bootstrap")
	require.Equal(t, 1, status, out)
	require.Contains(t, out, "gpukit: cannot lease 5 GPUs: this machine has 4")
	require.NotContains(t, out, "a command")
	out, status = m.run(append(env, "GPUKIT_BENCH=1"), program, "bootstrap")
	require.Equal(t, 1, status, out)
	require.Contains(t, out, "gpukit: cannot lease 1 GPU with fixed clocks: ")

	out, status = m.run(env, "bash", "-c", `. "$HOOKS/environment"`)
	require.Equal(t, 1, status)
	require.Contains(t, out, "cannot lease GPUs: this hook was not started by buildkite-agent bootstrap\n")
}

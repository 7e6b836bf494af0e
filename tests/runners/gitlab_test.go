//go:build e2e

package runners

import (
	"os"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"
)

// gitlabShell returns a script as gitlab-runner makes it for bash (shells/bash.go): one string
// that eval runs in a subshell, at the end of a pipe or, with FF_USE_NEW_BASH_EVAL_STRATEGY, in
// brackets. The variables of the job and pre_build_script are at its beginning.
func gitlabShell(t *testing.T, m *machine, pipe bool, env, script string) string {
	t.Helper()
	var config struct {
		Runners []struct {
			Script string `toml:"pre_build_script"`
		} `toml:"runners"`
	}
	data, err := os.ReadFile(m.home + "/config.toml")
	require.NoError(t, err)
	require.NoError(t, toml.Unmarshal(data, &config))
	pre := strings.ReplaceAll(config.Runners[0].Script, "/usr/", m.root.Path("/usr")+"/")
	text := "export CI_PROJECT_PATH=team/project CI_JOB_NAME=unit CI_JOB_ID=9 " + env + "\n" + pre + "\n" + script + "\n"
	quoted := "$'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(text) + "'"
	eval := "(eval " + quoted + " )"
	if pipe {
		eval = ": | eval " + quoted
	}
	return "#!/usr/bin/env bash\n\ntrap exit 1 TERM\n\nset -o pipefail\nset -o errexit\nset +o noclobber\n" +
		eval + "\nexit 0\n"
}

func newGitLab(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.write("config.toml", "[[runners]]\n  name = \"a\"\n  executor = \"shell\"\n")
	m.gpukit("runners", "install", "gitlab", "--path=/home/ci")
	return m
}

func TestJobOfGitLabsShellHasGPUs(t *testing.T) {
	m := newGitLab(t)
	for _, pipe := range []bool{true, false} {
		out, status := m.run(nil, "bash", m.write("script", gitlabShell(t, m, pipe, "GPUKIT_GPUS=2",
			`echo "script: $HIP_VISIBLE_DEVICES of $GPUKIT_RUN"; grep -c gpukit-run- /proc/self/cgroup`)))
		require.Zero(t, status, out)
		require.Regexp(t, `has GPU \d .*\nscript: 0,1 of run-[0-9a-f]{12}\n1\n$`, out)
		m.free()

		out, status = m.run(nil, "bash", m.write("script", gitlabShell(t, m, pipe, "GPUKIT_GPUS=5", "echo a script")))
		require.NotZero(t, status)
		require.Contains(t, out, "gpukit: cannot lease 5 GPUs: this machine has 4")
		require.NotContains(t, out, "a script")
		out, status = m.run(nil, "bash", m.write("script", gitlabShell(t, m, pipe, "GPUKIT_BENCH=1", "echo a script")))
		require.NotZero(t, status)
		require.Contains(t, out, "gpukit: cannot lease 1 GPU with fixed clocks: ")

		out, status = m.run(nil, "bash", m.write("script", gitlabShell(t, m, pipe, "GPUKIT_GPUS=0",
			`echo "script: ${GPUKIT_RUN-none}"; exit 3`)))
		require.Equal(t, "script: none\n", out)
		require.Equal(t, 3, status)
	}
}

// The stages and exit codes of the custom executor, as GitLab documents them (docs.gitlab.com,
// runner/executors/custom): "run" is called with a script and a stage, job variables have the
// prefix CUSTOM_ENV_.
func TestStagesOfGitLabsCustomExecutor(t *testing.T) {
	m := newMachine(t)
	run := m.root.Path("/usr/share/gpukit/runners/gitlab/run.sh")
	env := []string{"BUILD_FAILURE_EXIT_CODE=81", "SYSTEM_FAILURE_EXIT_CODE=82",
		"BUILD_EXIT_CODE_FILE=" + m.home + "/code",
		"CUSTOM_ENV_CI_PROJECT_PATH=team/project", "CUSTOM_ENV_CI_JOB_NAME=unit"}
	m.write("x", "")
	for _, c := range []struct {
		name, stage, script, gpus string
		status                    int
		out                       string
	}{
		{"other stages have no GPU", "get_sources", `echo "${GPUKIT_RUN-none}"`, "", 0, `^none\n$`},
		{"the script has one", "build_script", `echo "$HIP_VISIBLE_DEVICES"`, "", 0,
			`^gpukit: .* has GPU \d .*\n0\n$`},
		{"the job wants two", "build_script", `echo "$HIP_VISIBLE_DEVICES"`, "2", 0,
			`has GPU \d .*, GPU \d .*\n0,1\n$`},
		{"the job wants none", "build_script", `echo "${GPUKIT_RUN-none}"`, "0", 0, `^none\n$`},
		{"the job fails", "build_script", "exit 3", "", 81, `has GPU \d`},
		{"another stage fails", "after_script", "exit 3", "", 81, "^$"},
		{"too many GPUs", "build_script", "echo a script", "5", 82,
			`^gpukit: cannot lease 5 GPUs: this machine has 4`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, status := m.run(append(env, "CUSTOM_ENV_GPUKIT_GPUS="+c.gpus), run, m.write("script", c.script+"\n"),
				c.stage)
			require.Equal(t, c.status, status, out)
			require.Regexp(t, c.out, out)
			m.free()
		})
	}
	out, status := m.run(append(env, "CUSTOM_ENV_GPUKIT_BENCH=1"), run, m.write("script", "echo a script\n"), "build_script")
	require.Equal(t, 82, status, out)
	require.Contains(t, out, "gpukit: cannot lease 1 GPU with fixed clocks: ")
	code, err := os.ReadFile(m.home + "/code")
	require.NoError(t, err)
	require.Equal(t, "3\n", string(code))
}

// The example has only fields that GitLab documents.
func TestExampleForGitLabIsValid(t *testing.T) {
	var config struct {
		Runners []struct {
			Name      string `toml:"name"`
			Executor  string `toml:"executor"`
			Shell     string `toml:"shell"`
			BuildsDir string `toml:"builds_dir"`
			CacheDir  string `toml:"cache_dir"`
			Script    string `toml:"pre_build_script"`
			Docker    struct {
				Image   string `toml:"image"`
				Runtime string `toml:"runtime"`
			} `toml:"docker"`
			Custom struct {
				Run string `toml:"run_exec"`
			} `toml:"custom"`
		} `toml:"runners"`
	}
	f, err := os.Open(hooks + "/gitlab/config.toml")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, toml.NewDecoder(f).DisallowUnknownFields().Decode(&config))
	require.Len(t, config.Runners, 3)
}

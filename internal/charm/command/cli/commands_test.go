package cli

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The shell completes the word.
func TestShellCompletesCommandsAndFlags(t *testing.T) {
	_, script, _ := dispatch(t, "no-gpu", "completion bash")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	for line, want := range map[string]string{
		"cd":                                 "cdi",
		"cdi ":                               "refresh list generate validate",
		"cdi list ":                          "--json --help",
		"cdi generate --o":                   "--output=",
		"cdi generate --dry-run --f":         "--format=",
		"runtime ":                           "configure",
		"runtime configure d":                "docker",
		"runtime configure docker --set":     "--set-as-default",
		"gpu with":                           "withhold",
		"gpu health ":                        "--json --help",
		"gpu release 0 --":                   "--force --help",
		"plan --":                            "--help",
		"nothing such ":                      "",
		"runtime configure podman --remove ": "docker podman containerd crio --set-as-default --unset-as-default --remove --restart --dry-run --wrapper= --config-path= --runtime= --help",
	} {
		words := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			words = append(words, "''")
		}
		out, err := exec.Command(bash, "-c", script+"\nCOMP_WORDS=(dispatch "+strings.Join(words, " ")+"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _dispatch; echo ${COMPREPLY[*]}").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, want, strings.TrimSpace(string(out)), line)
	}
}

func TestEachCommandHasHelp(t *testing.T) {
	all := []string{"gpu", "rocm", "cdi", "runtime", "kubernetes"}
	for _, c := range commands {
		if c.words != "gpu-baseline" { // a separate program with a test of its help
			all = append(all, c.words)
		}
	}
	for _, command := range all {
		for _, flag := range []string{"--help", "-h"} {
			code, out, errs := dispatch(t, "no-gpu", command+" "+flag)
			require.Zero(t, code, "%s %s: %s", command, flag, errs)
			require.Empty(t, errs)
			require.True(t, strings.HasPrefix(out, "Usage: dispatch "+command) || strings.HasPrefix(out, "Usage: dispatch "+strings.Fields(command)[0]), out)
			require.Contains(t, out, strings.Fields(command)[0])
			for line := range strings.Lines(out) {
				require.LessOrEqual(t, len(line), 96, line)
			}
		}
	}
}

func TestHelpForACommandAGroupOrAll(t *testing.T) {
	const end = "\nExit status: 0 done, 1 failed, 2 wrong command line.\ndispatch --help has all commands.\n"
	list := "Usage: dispatch gpu list [--json]\n  the unit's GPUs, and those that do not count with the reason\n"
	for line, want := range map[string]string{
		"gpu list --help":           list + end,
		"help gpu list":             list + end,
		"gpu list --json -h":        list + end,
		"explain 2 --help":          "Usage: dispatch explain N [--json]\n  what error N means, what causes it, and what to do\n" + end,
		"gpu release 0 --help":      "Usage: dispatch gpu release GPU [--force]\n  free a GPU whose lease is damaged or in doubt\n" + end,
		"help":                      usage(),
		"-h":                        usage(),
		"help cdi list":             cdiListUsage,
		"kubernetes --help":         kubernetesUsage,
		"kubernetes labels -h":      kubernetesUsage,
		"gpu top --help":            topUsage,
		"cdi generate --dry-run -h": cdiGenerateUsage,
	} {
		code, out, _ := dispatch(t, "no-gpu", line)
		require.Zero(t, code, line)
		require.Equal(t, want, out, line)
	}
	_, group, _ := dispatch(t, "no-gpu", "rocm --help")
	require.Equal(t, 2, strings.Count(group, "Usage: dispatch rocm "))
	code, _, errs := dispatch(t, "no-gpu", "gpu lost --help")
	require.Equal(t, 2, code)
	require.Contains(t, errs, `cannot run gpu "lost"`)
}

// A command with a separate help text lists exactly the flags of its row.
func TestSeparateHelpHasTheFlagsOfTheTable(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^  (--[a-z-]+=?)`)
	for words, text := range map[string]string{"gpu top": topUsage, "cdi list": cdiListUsage, "cdi generate": cdiGenerateUsage, "cdi validate": cdiValidateUsage, "runtime configure": runtimeUsage} {
		at := slices.IndexFunc(commands, func(c command) bool { return c.words == words })
		require.GreaterOrEqual(t, at, 0, words)
		var told []string
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			told = append(told, m[1])
		}
		require.ElementsMatch(t, told, slices.Concat(commands[at].flags, commands[at].helpFlags, []string{"--help"}), words)
	}
}

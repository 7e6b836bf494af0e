package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell's own answer to a word that is begun.
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

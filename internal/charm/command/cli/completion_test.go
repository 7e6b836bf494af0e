package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellCompletesCommandsFlagsAndValues(t *testing.T) {
	for line, want := range map[string]string{
		"cd":                             "cdi",
		"cdi _":                          "refresh list generate validate",
		"cdi generate --o":               "--output",
		"runtime configure d":            "docker",
		"runtime configure docker --set": "--set-as-default",
		"gpu quar":                       "quarantine",
		"gpu quarantine _":               "0 0000:03:00.0",
		"explain _":                      "1 2 3 4 5 6 7 8",
		"pipelines vars/":                "vars/fill-models.yml vars/rocm-build.yml vars/rocm-pr.yml vars/rocm-windows.yml vars/warm-images.yml",
		"plan _":                         "",
	} {
		words := strings.Fields(line)
		args := []string{"dispatch", "__completeNoDesc"}
		for _, w := range words {
			args = append(args, strings.ReplaceAll(w, "_", ""))
		}
		code, out, errs := dispatchWords(t, "amd", args...)
		require.Zero(t, code, errs)
		var got []string
		for l := range strings.Lines(out) {
			if l = strings.TrimSpace(l); !strings.HasPrefix(l, ":") {
				got = append(got, l)
			}
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
}

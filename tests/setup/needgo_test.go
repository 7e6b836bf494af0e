package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const script = "../../scripts/need-go.sh"

// fakeGo replaces an installed Go: $1 and $2 have the questions to it.
func fakeGo(version, list string) string {
	return "#!/bin/sh\ncase \"$1 $2\" in\n" +
		"'env GOVERSION') echo " + version + " ;;\n" +
		"'list -m') " + list + " ;;\n" +
		"*) exit 9 ;;\nesac\n"
}

func TestNeedGo(t *testing.T) {
	want := goOfModule(t, "../../go.mod")

	const good = "echo concourse-ci-machine"
	tests := []struct {
		name, golang string // golang "" for none
		code         int
		text         string
	}{
		{"none", "", 1, "Go is not installed."},
		{"one that can't fetch another", fakeGo("go1.19.8", good), 1, "go1.19.8"},
		{"one without minor version digits", fakeGo("go1.2", good), 1, "too old"},
		{"new enough", fakeGo("go"+want, good), 0, ""},
		{"one that fetches", fakeGo("go1.22.2", good), 0, ""},
		{"a development version", fakeGo("devel", good), 0, ""},
		{"older, and told not to fetch", fakeGo("go1.22.2", "echo 'go: go.mod requires go >= 9 (running go 1.22.2; GOTOOLCHAIN=local)' >&2; exit 1"),
			1, "Run make as: GOTOOLCHAIN=auto make"},
		{"older, and no way to fetch", fakeGo("go1.22.2", "echo 'go: download go9 for linux/amd64: toolchain not available' >&2; exit 1"),
			1, "toolchain not available"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			for _, tool := range []string{"sh", "awk", "sed", "uname", "dirname", "cat"} {
				path, err := exec.LookPath(tool)
				require.NoError(t, err)
				require.NoError(t, os.Symlink(path, filepath.Join(bin, tool)))
			}
			if tt.golang != "" {
				require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(tt.golang), 0o755))
			}
			c := exec.Command(script)
			c.Env = []string{"PATH=" + bin}
			out, _ := c.CombinedOutput()
			require.Equal(t, tt.code, c.ProcessState.ExitCode(), string(out))
			require.Contains(t, string(out), tt.text)
			if tt.code == 0 {
				require.Empty(t, string(out))
				return
			}
			if !strings.Contains(tt.text, "GOTOOLCHAIN") {
				require.Contains(t, string(out), "sudo apt-get install -y golang-go")
				require.Contains(t, string(out), "https://go.dev/dl/go"+want+".linux-")
			}
		})
	}
}

//go:build e2e

package windows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// python is a program that prints its arguments, and fails if the last one is in FAIL.
const python = `package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	fmt.Println("python " + strings.Join(os.Args[1:], "|"))
	if os.Args[len(os.Args)-1] == os.Getenv("FAIL") {
		os.Exit(3)
	}
}
`

// The lines of windows-rocm start Python with the script under cmd, as GitHub's runner calls it
// for "shell: cmd", also from a folder with a space. If Python fails, the step
// fails.
func TestLinesOfGitHubsWorkflowRunUnderCmd(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	data, err := os.ReadFile(filepath.Join(hosttest.Source(), ".github/workflows/rocm.yml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &workflow))

	w := start(t)
	source := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(source, []byte(python), 0o644))
	require.NoError(t, os.MkdirAll(w.c("Program Files/Python/built"), 0o755))
	c := exec.Command("go", "build", "-o", w.c("Program Files/Python/python.exe"), source)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows", "GOARCH=amd64")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))

	lines := 0
	for _, s := range workflow.Jobs["windows-rocm"].Steps {
		if s.Run == "" {
			continue
		}
		lines++
		const step = "@echo off\r\ncd /d \"C:\\Program Files\\Python\"\r\n" +
			"set PYTHON=C:\\Program Files\\Python\\python.exe\r\n"
		require.NoError(t, os.WriteFile(w.c("step.cmd"), []byte(step+s.Run+"\r\n"), 0o644))
		_, command, _ := strings.Cut(s.Run, `"%PYTHON%" `)
		require.Contains(t, w.run("cmd", "/D", "/E:ON", "/V:OFF", "/S", "/C", "CALL", `C:\step.cmd`),
			"python "+strings.ReplaceAll(command, " ", "|")+"\n")

		fails := strings.Fields(command)
		failing := step + "set FAIL=" + fails[len(fails)-1] + "\r\n" +
			strings.TrimPrefix(s.Run, "move built wheels && ") + "\r\n"
		require.NoError(t, os.WriteFile(w.c("step.cmd"), []byte(failing), 0o644))
		exit, _, _ := w.try("cmd", "/D", "/E:ON", "/V:OFF", "/S", "/C", "CALL", `C:\step.cmd`)
		require.NotZero(t, exit, s.Run)
	}
	require.Equal(t, 9, lines)
	require.DirExists(t, w.c("Program Files/Python/wheels"))
}

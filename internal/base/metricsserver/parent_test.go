package metricsserver

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
)

// asProgram makes this binary a program that runs until its parent ends.
const asProgram = "METRICSSERVER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	program := &cobra.Command{Use: "program"}
	f := Declare(program.Flags(), 0)
	program.RunE = func(c *cobra.Command, _ []string) error {
		return f.Run(c, func(ctx context.Context, _ *Server) error {
			if _, err := os.Stdout.WriteString("runs\n"); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
	}
	os.Exit(commandline.Run(context.Background(), program, os.Args[1:], os.Stdout, os.Stderr))
}

func TestProgramEndsWithItsParent(t *testing.T) {
	line, rest := child(t, false)
	require.Equal(t, "runs\n", line)
	require.Empty(t, rest)
}

// Its signal would never come.
func TestProgramDoesNotStartAfterItsParentsEnd(t *testing.T) {
	line, rest := child(t, true)
	require.Equal(t, "program: cannot run: the process that started this one has ended; start it by a supervisor, or by setsid\n", line)
	require.Empty(t, rest)
}

// child starts the program as a child of a shell, which ends before the program starts if
// late, otherwise once it runs. It returns the program's first line, and its output from
// then on until its end.
func child(t *testing.T, late bool) (line, rest string) {
	t.Helper()
	pipe := func() (*os.File, *os.File) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		return r, w
	}
	output, stdout := pipe()
	begin, toBegin := pipe()
	end, toEnd := pipe()
	script := `(read -r _ <&3 && exec "$0") & echo $!`
	if !late {
		script += `; read -r _ <&4`
	}
	shell := exec.Command("sh", "-c", script, os.Args[0])
	shell.Env = append(os.Environ(), asProgram+"=1")
	shell.Stdout, shell.Stderr, shell.ExtraFiles = stdout, stdout, []*os.File{begin, end}
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, shell.Start())
	for _, f := range []*os.File{stdout, begin, end} {
		require.NoError(t, f.Close())
	}

	lines := bufio.NewReader(output)
	next := func() string {
		text, err := lines.ReadString('\n')
		require.NoError(t, err)
		return text
	}
	pid, err := strconv.Atoi(strings.TrimSpace(next()))
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(syscall.Kill(pid, syscall.SIGKILL))
		}
	})
	if late {
		require.NoError(t, shell.Wait())
	}
	_, err = toBegin.WriteString("\n")
	require.NoError(t, err)
	line = next()
	if !late {
		_, err = toEnd.WriteString("\n")
		require.NoError(t, err)
		require.NoError(t, shell.Wait())
	}
	all, err := io.ReadAll(lines)
	require.NoError(t, err)
	return line, string(all)
}

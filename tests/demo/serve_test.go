package demo

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pseudoTerminal opens a pseudo-terminal: person reads and types what program writes and
// reads.
func pseudoTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { program.Close() })
	return person, program
}

// onTerminal starts the demo of the hooks on a terminal, through make as a person does.
func onTerminal(t *testing.T, env ...string) (c *exec.Cmd, tmp string, person *os.File) {
	t.Helper()
	demo, tmp := command(t)
	c, person = throughMake(t, demo, env...)
	return c, tmp, person
}

// throughMake starts a demo on a terminal, as a target of make.
func throughMake(t *testing.T, demo *exec.Cmd, env ...string) (c *exec.Cmd, person *os.File) {
	t.Helper()
	mk, err := exec.LookPath("make")
	if err != nil {
		t.Skip("make is missing")
	}
	person, program := pseudoTerminal(t)
	makefile := filepath.Join(t.TempDir(), "Makefile")
	require.NoError(t, os.WriteFile(makefile, []byte("demo:\n\t@"+strings.Join(demo.Args, " ")+"\n"), 0o644))
	c = exec.Command(mk, "-f", makefile, "demo")
	c.Dir, c.Env = demo.Dir, append(demo.Env, env...)
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		if c.ProcessState == nil { // a failed test: the session leader's end hangs up the terminal
			c.Process.Kill()
			c.Wait()
		}
	})
	require.NoError(t, program.Close())
	return c, person
}

// read returns the output up to the one that stop accepts, or all of it.
func read(person *os.File, stop func(text string) bool) string {
	var text bytes.Buffer
	for buf := make([]byte, 4096); !stop(text.String()); {
		n, err := person.Read(buf)
		text.Write(buf[:n])
		if err != nil { // EIO: every program closed the terminal
			break
		}
	}
	return strings.ReplaceAll(text.String(), "\r\n", "\n")
}

func toTheEnd(string) bool { return false }

func TestTerminalGetsTheStatusPageUntilItIsInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		interrupt func(make *exec.Cmd, person *os.File) error
		code      int
		end       string
	}{
		"Ctrl-C": {func(_ *exec.Cmd, person *os.File) error {
			_, err := person.WriteString("\x03")
			return err
		}, 0, "\nNothing was left behind.\n"},
		// make passes it on, and ends by it.
		"kill": {func(make *exec.Cmd, _ *os.File) error { return make.Process.Signal(syscall.SIGTERM) }, -1,
			"sandbox: stopped: terminated; nothing was left behind\n"},
	} {
		t.Run(name, func(t *testing.T) {
			make, tmp, person := onTerminal(t)
			text := read(person, func(text string) bool { return strings.Contains(text, "removes its folder\r\n") })
			_, serving, found := strings.Cut(text, "Your turn: the status page of the stand-in GPU")
			require.True(t, found, text)
			for line := range strings.Lines(serving) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
			}
			url := regexp.MustCompile(`page +(http://127\.0\.0\.1:[0-9]+/)\n`).FindStringSubmatch(serving)
			require.NotNil(t, url, serving)
			resp, err := http.Get(url[1])
			require.NoError(t, err)
			page, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Contains(t, string(page), "AMD Radeon RX 7900 XT")
			require.NoError(t, c.interrupt(make, person))
			rest := read(person, toTheEnd)
			make.Wait()
			require.Equal(t, c.code, make.ProcessState.ExitCode(), rest)
			require.Contains(t, rest, c.end)
			if c.code == 0 {
				require.NotContains(t, rest, "***", "make reports no error")
			}
			requireNothingLeft(t, tmp)
			_, err = http.Get(url[1])
			require.Error(t, err)
		})
	}
}

func TestTerminalDoesNotWaitWithVariables(t *testing.T) {
	for variable, why := range map[string]string{"CI=true": "CI is set", "NO_SERVE=1": "NO_SERVE is set"} {
		t.Run(variable, func(t *testing.T) {
			make, tmp, person := onTerminal(t, variable)
			text := read(person, toTheEnd)
			require.NoError(t, make.Wait(), text)
			require.Contains(t, text, "a look at the status page: "+why+"\n\nNothing was left behind.\n")
			requireNothingLeft(t, tmp)
		})
	}
}

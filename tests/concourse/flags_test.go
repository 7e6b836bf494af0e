//go:build e2e

package concourse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

var variable = regexp.MustCompile(`\[\$(\w+)\]`)

// known are the variables that a command of the release names in its help.
func known(t *testing.T, command string) []string {
	t.Helper()
	releaseTarball(t)
	dir, err := unpacked()
	require.NoError(t, err)
	c := exec.Command(filepath.Join(dir, "bin/concourse"), command, "--help")
	c.Stdin = wide(t)
	out, err := c.CombinedOutput()
	// Help is an error of go-flags; what counts is the text.
	if exit := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(t, err, &exit)
	}
	var names []string
	for _, m := range variable.FindAllSubmatch(out, -1) {
		names = append(names, string(m[1]))
	}
	require.Greater(t, len(names), 50, "%s", out)
	slices.Sort(names)
	return slices.Compact(names)
}

// wide is a terminal of so many columns that the help is not broken into pieces.
func wide(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, master.Close()) })
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 10000}))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, slave.Close()) })
	return slave
}

// Concourse ignores a variable that it does not know without a word.
func TestConcourseKnowsEveryVariable(t *testing.T) {
	web, worker := known(t, "web"), known(t, "worker")
	require.Subset(t, web, config.WebEnvKeys())
	version := releaseVersion(t)
	listed := func(command string) []string {
		data, err := os.ReadFile(filepath.Join("../../internal/concourse/testdata/variables-"+version, command))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("there is no list of the variables of %s", version)
		}
		require.NoError(t, err)
		return strings.Fields(string(data))
	}
	require.Equal(t, web, listed("web"))
	// A worker that runs containerd does not start with the first of these; the
	// others are known to all programs.
	worker = slices.DeleteFunc(worker, func(name string) bool {
		return strings.HasPrefix(name, "CONCOURSE_GARDEN_") || proxy(name)
	})
	require.Equal(t, worker, listed("worker"))
}

// proxy variables are read by the libraries of all programs.
func proxy(name string) bool { return strings.HasSuffix(name, "_proxy") }

// knowsAll is that every variable of a file that the charm wrote has an effect.
func knowsAll(t *testing.T, command, file string) {
	t.Helper()
	all := known(t, command)
	written := parseEnvFile(file)
	require.NotEmpty(t, written)
	for name := range written {
		require.True(t, slices.Contains(all, name) || proxy(name), "concourse %s does not know %s", command, name)
	}
}

func releaseVersion(t *testing.T) string {
	t.Helper()
	dir, err := unpacked()
	require.NoError(t, err)
	out, err := exec.Command(filepath.Join(dir, "bin/concourse"), "--version").Output()
	require.NoError(t, err)
	return regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(string(out))
}

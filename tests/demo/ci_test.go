//go:build e2e

package demo

import (
	"bufio"
	"bytes"
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

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// ciCommand returns the demo of a whole CI. It needs root and a release, and gets the programs
// that are missing itself.
func ciCommand(t *testing.T) (c *exec.Cmd, tmp string) {
	t.Helper()
	if os.Geteuid() != 0 {
		suite.Need(t, "root is needed for namespaces")
	}
	if os.Getenv(suite.ReleaseEnv) == "" {
		t.Skip(suite.NoRelease)
	}
	return demoCommand(t)
}

// mounts returns this machine's mounts.
func mounts(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	return string(data)
}

// requireScenes checks the CI's scenes in the order of the output.
func requireScenes(t *testing.T, text string) {
	t.Helper()
	rest := text
	for _, want := range []string{
		"This demo sets up a whole CI with sudo concourse-ci-machine up, on a throwaway",
		"active: Web server and worker ready (v",
		"  train     has opened its GPU: renderD128\n",
		"  test      has opened its GPU: renderD129\n",
		"  report    no suitable workers found, waiting for worker...\n",
		"  train     has ended, and its GPU is free\n",
		"  report    has opened its GPU: renderD128\n",
		"  test      concourse-ci-machine: GPU 1: 1 uncorrectable error",
		"\n    quarantined: GPU 1 (",
		"  train     has opened its GPU: renderD128\n",
		"\n== Shown =",
		"  ok        a sick GPU is avoided: the next build got renderD128\n",
	} {
		_, after, found := strings.Cut(rest, want)
		require.True(t, found, "%q is missing or out of order:\n%s", want, text)
		rest = after
	}
	require.NotContains(t, text, "FAILED")
}

func TestDemoAsRootRunsBuildsOnAWholeCI(t *testing.T) {
	c, tmp := ciCommand(t)
	before := mounts(t)
	c.Env = append(c.Env, "NO_SERVE=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	text := string(out)
	require.NoError(t, err, "%s\n%s", text, errs.String())
	require.Empty(t, errs.String())
	requireScenes(t, text)
	require.Contains(t, text, "  not run   a look at the CI: NO_SERVE is set\n")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
	require.NotContains(t, text, "\x1b", "colours are for terminals")
	require.Equal(t, before, mounts(t))
	requireNothingLeft(t, tmp)
}

// On a terminal the CI stays until Ctrl-C, with a page and a password that are valid.
func TestTerminalGetsTheCIUntilItIsInterrupted(t *testing.T) {
	demo, tmp := ciCommand(t)
	before := mounts(t)
	make, person := throughMake(t, demo, "NO_COLOR=1")
	text := read(person, func(text string) bool { return strings.Contains(text, "removes its machine\r\n") })
	require.Contains(t, text, "  ok        set up the CI (", "the seconds of a step stay")
	_, turn, found := strings.Cut(text, "Your turn: a CI with two GPUs")
	require.True(t, found, text)
	web := regexp.MustCompile(`web +(http://127\.0\.0\.1:[0-9]+)\n`).FindStringSubmatch(turn)
	require.NotNil(t, web, turn)
	password := regexp.MustCompile(`user admin, password ([A-Z0-9]+)\n`).FindStringSubmatch(turn)
	require.NotNil(t, password, turn)
	page := regexp.MustCompile(`GPUs +(http://127\.0\.0\.1:[0-9]+)\n`).FindStringSubmatch(turn)
	require.NotNil(t, page, turn)
	get := func(url string) string {
		resp, err := http.Get(url)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, url)
		return string(body)
	}
	require.Contains(t, get(web[1]+"/api/v1/info"), `"external_url":"`+web[1]+`"`)
	require.Contains(t, get(page[1]+"/"), "GPUs of gpu-demo/0 on gpu-demo")
	workers, err := concourse.NewAPI(web[1], "admin", password[1]).Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, workers, 1)
	require.Contains(t, workers[0].Tags, "gpu-count=2")
	_, err = person.WriteString("\x03")
	require.NoError(t, err)
	rest := read(person, toTheEnd)
	require.NoError(t, make.Wait(), rest)
	require.Contains(t, rest, "Nothing was left behind")
	require.NotContains(t, rest, "***", "make reports no error")
	require.Equal(t, before, mounts(t))
	requireNothingLeft(t, tmp)
	_, err = http.Get(web[1])
	require.Error(t, err)
}

// An interruption comes while the CI is set up.
func TestInterruptedCILeavesNothing(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "kill": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			c, tmp := ciCommand(t)
			before := mounts(t)
			var errs bytes.Buffer
			c.Stderr = &errs
			out, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), "$         sudo concourse-ci-machine up") {
			}
			require.NoError(t, c.Process.Signal(signal))
			rest, err := io.ReadAll(out)
			require.NoError(t, err)
			require.Error(t, c.Wait())
			require.Equal(t, 128+int(signal), c.ProcessState.ExitCode(), errs.String())
			require.Equal(t, "sandbox: stopped: "+signal.String()+"; nothing was left behind\n", errs.String())
			require.NotContains(t, string(rest), "Shown")
			require.Equal(t, before, mounts(t))
			requireNothingLeft(t, tmp)
		})
	}
}

// Each scene fails without the feature that it shows.
func TestDemoFailsWithoutAFeature(t *testing.T) {
	for option, want := range map[string]struct{ passed, failed string }{
		"compute-runtime=none":                            {"a machine", "cannot see that the worker has its GPUs: the tag gpu-count=2 is missing"},
		"gpu-sharing=shared":                              {"a whole CI by one command", "has not exactly one GPU: renderD128 renderD129"},
		"extra-web-flags=--max-active-tasks-per-worker=0": {"a build on its GPU", "cannot lease 1 GPU: 0 of 2 are free"},
		"gpu-quarantine=off":                              {"a build waits for its lease", "cannot see that the machine quarantines the GPU"},
	} {
		t.Run(option, func(t *testing.T) {
			c, tmp := ciCommand(t)
			c.Args, c.Env = append(c.Args, "-option", option), append(c.Env, "NO_SERVE=1")
			out, err := c.CombinedOutput()
			text := string(out)
			require.Error(t, err, text)
			require.Equal(t, 1, c.ProcessState.ExitCode(), text)
			_, stopped, found := strings.Cut(text, "\n== Stopped =")
			require.True(t, found, text)
			passed, rest, found := strings.Cut(stopped, "  FAILED    ")
			require.True(t, found, text)
			require.Contains(t, passed, "  ok        "+want.passed+": ", text)
			require.NotContains(t, rest, "  ok  ", text)
			require.Contains(t, strings.Join(strings.Fields(text), " "), want.failed)
			for _, log := range logOf.FindAllString(text, -1) {
				require.NoError(t, os.Remove(log))
			}
			requireNothingLeft(t, tmp)
		})
	}
}

// logOf matches the log that a failed demo keeps.
var logOf = regexp.MustCompile(`/\S+concourse-ci-machine-demo-\d+\.log`)

// Ctrl-C of a terminal reaches all its programs, and the demo's own are in its hands. A
// release of this size is packed for minutes.
func TestTerminalInterruptsThePreparation(t *testing.T) {
	release := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(release, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(release, "bin/concourse"), nil, 0o755))
	require.NoError(t, os.Truncate(filepath.Join(release, "bin/concourse"), 1<<40))
	if os.Geteuid() != 0 {
		suite.Need(t, "root is needed for namespaces")
	}
	demo, tmp := demoCommand(t)
	_, person := throughMake(t, demo, "NO_COLOR=1", suite.ReleaseEnv+"="+release)
	const noCI = "  no CI     "
	text := read(person, func(text string) bool {
		return strings.Contains(text, "copy the release and the charm") || strings.Contains(text, noCI)
	})
	_, err := person.WriteString("\x03")
	require.NoError(t, err)
	text += read(person, toTheEnd)
	require.NotContains(t, text, noCI)
	require.Contains(t, text, "sandbox: stopped: interrupt; nothing was left behind\n")
	require.NotContains(t, text, "FAILED")
	require.NotContains(t, text, "cannot ")
	requireNothingLeft(t, tmp)
}

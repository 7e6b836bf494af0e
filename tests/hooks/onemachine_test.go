package hooks

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// oneMachine is a machine without Juju. Its commands are processes, because the name of the
// program is one for the whole process.
type oneMachine struct{ *unit }

func newOneMachine(t *testing.T, hostDir string) oneMachine {
	t.Helper()
	m := oneMachine{processUnit(t, hostDir, nil)}
	m.Start = func(c *exec.Cmd) { c.Args[0] = "concourse-ci-machine" }
	pg, err := sandbox.NewPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	for path, text := range map[string]string{
		"/run/systemd/system/x": "", "/proc/net/tcp": "", onemachine.OptionsFile: fmt.Sprintf("mode: all\n\n# The web.\n"+
			"web-port: %d\ndatabase-url: postgresql://ci:pw@%s/ci\nrocm-base-url: %s\n", m.Machine.WebPort(), pg.Address(), nobodyListens),
	} {
		require.NoError(t, m.Root.WriteFile(path, []byte(text), 0o600))
	}
	return m
}

// ran runs a command line, and returns its output and exit status.
func (m oneMachine) ran(line string) (string, int) {
	m.t.Helper()
	out, err := m.RunAsOperator(strings.Fields(line)...)
	require.NoError(m.t, err)
	return out.Stdout + out.Stderr, out.Code
}

// must runs a command line that must succeed.
func (m oneMachine) must(line string) string {
	m.t.Helper()
	out, code := m.ran(line)
	require.Zero(m.t, code, out)
	return out
}

// options of a machine are checked before anything changes.
func TestChangeThatAMachineCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("no-gpu"))
	out, code := m.ran("up --release=/no/such.tgz")
	require.Equal(t, 1, code)
	require.Contains(t, out, "cannot use --release=/no/such.tgz: no such file or directory; give the file concourse-")
	out, code = m.ran("up --release=" + m.Root.Path(onemachine.OptionsFile))
	require.Equal(t, 1, code)
	require.Contains(t, out, "it is not a compressed file")
	require.Empty(t, m.Machine.Recorded())
	require.Contains(t, m.must("up --release="+releaseTarball("8.2.5")), "active: Web server and worker ready (v8.2.5) ")

	before := m.everything()
	m.Machine.Recorded()
	for line, want := range map[string]string{
		"set mode=worker":            "mode: \"worker\" would remove this machine's web with its keys",
		"reset nope":                 "nope: no such option",
		"reset gpu-shareing version": "gpu-shareing: no such option; did you mean gpu-sharing?",
		"set web-prt=80":             "web-prt: no such option; did you mean web-port?",
		"set web-port=":              "web-port: ",
		"upgrade 9.9.9":              "the release is Concourse 8.2.5, wanted is 9.9.9",
		"upgrade latest":             "version: ",
	} {
		out, code := m.ran(line)
		require.Equal(t, 1, code, line)
		require.Contains(t, out, "so nothing was changed:", line)
		require.Contains(t, out, want, line)
		require.Equal(t, before, m.everything(), line)
	}
	require.Empty(t, m.Machine.Recorded())

	// A release that cannot be had holds no other option up.
	options := m.read(onemachine.OptionsFile)
	require.NoError(t, m.Root.WriteFile(onemachine.OptionsFile, []byte(options+"version: 9.9.9\n"), 0o600))
	out, code = m.ran("set web-port=8081")
	require.Equal(t, 1, code)
	require.Contains(t, out, "changed, but ")
	require.Contains(t, m.read(onemachine.OptionsFile), "\nweb-port: 8081\n")
	require.NoError(t, m.Root.WriteFile(onemachine.OptionsFile, []byte(options), 0o600))
	m.must("up")

	// An edited file is not a way around the check.
	edited := strings.Replace(m.read(onemachine.OptionsFile), "mode: all", "mode: worker", 1)
	require.NoError(t, m.Root.WriteFile(onemachine.OptionsFile, []byte(edited), 0o600))
	for _, line := range []string{"reconcile", "up"} {
		out, code = m.ran(line)
		require.Equal(t, 1, code, line)
		require.Contains(t, out, "would remove this machine's web", line)
	}
	out, code = m.ran("status")
	require.Equal(t, 1, code)
	require.Contains(t, out, "blocked: mode: \"worker\" would remove this machine's web")
	require.NotEmpty(t, m.read("/var/lib/concourse/keys/tsa_host_key"))
}

// everything is the content of the files that a change of options can change.
func (m oneMachine) everything() string {
	m.t.Helper()
	var all strings.Builder
	for _, top := range []string{"/etc", "/opt", "/var/lib/concourse/keys", "/var/lib/concourse-worker"} {
		require.NoError(m.t, filepath.Walk(m.Root.Path(top), func(p string, d os.FileInfo, err error) error {
			if err != nil || !d.Mode().IsRegular() {
				return err
			}
			data, err := os.ReadFile(p)
			fmt.Fprintf(&all, "%s %x\n", p, sha256.Sum256(data))
			return err
		}))
	}
	return all.String()
}

func TestChangeThatDoesNotWorkFails(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("no-gpu"))
	m.must("up --release=" + releaseTarball("8.2.5"))
	out, code := m.ran("set compute-runtime=cuda")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "changed, but the CI is not ready:\nblocked: ")
	m.must("reset compute-runtime")
}

// The web limits tasks by the GPUs of the worker beside it.
func TestChangeOfAMachineLeavesNothingToDo(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("amd"))
	m.must("up --release=" + releaseTarball("8.2.5"))
	for _, sharing := range []string{"exclusive", "shared"} {
		m.must("set gpu-sharing=" + sharing)
		require.Contains(t, m.must("plan"), "\nnothing to do\n", sharing)
	}
}

func TestUpgradeOfAMachine(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("no-gpu"))
	m.must("up --release=" + releaseTarball("8.2.5"))
	require.Contains(t, m.must("up --release="+releaseTarball("8.2.6")), "(v8.2.6)", "another file is used")
	require.Contains(t, m.must("up"), "(v8.2.6)")
	out, code := m.ran("upgrade 8.3.0")
	require.Equal(t, 1, code)
	require.Contains(t, out, "version=8.2.6, or give Concourse 8.3.0")
	require.Contains(t, m.must("status"), "(v8.2.6)")
}

func TestDownOfAMachineNamesItsReason(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("no-gpu"))
	m.must("up --release=" + releaseTarball("8.2.5"))
	out := m.must("down")
	require.Contains(t, out, "stop concourse-worker.service (the CI is stopped)")
	require.NotContains(t, out, "unit is")
}

func TestKilledDownIsShownAndCompleted(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("no-gpu"))
	m.must("up --release=" + releaseTarball("8.2.5"))
	const file = "/var/lib/concourse-ci-machine/machine.json"
	state := strings.Replace(m.read(file), "{", `{"down":true,`, 1)
	require.NoError(t, m.Root.WriteFile(file, []byte(state), 0o600))

	out, code := m.ran("status")
	require.Equal(t, 1, code)
	require.Contains(t, out, "the CI is being stopped: concourse-server.service, concourse-worker.service")
	require.Contains(t, m.must("reconcile"), "stop concourse-worker.service (the CI is stopped)")
	out, _ = m.ran("status")
	require.Contains(t, out, "down: the CI is stopped")
	require.NotContains(t, m.must("reconcile"), ".service", "the machine stays down")
}

func TestUpgradeOfAMachineFromAMirror(t *testing.T) {
	t.Parallel()
	m := newOneMachine(t, fixture("no-gpu"))
	dir := t.TempDir()
	for _, v := range []string{"8.2.5", "8.2.6"} {
		data, err := os.ReadFile(releaseTarball(v))
		require.NoError(t, err)
		name := filepath.Join(dir, "v"+v, "concourse-"+v+"-linux-amd64.tgz")
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, data, 0o644))
		require.NoError(t, os.WriteFile(name+".sha256", fmt.Appendf(nil, "%x\n", sha256.Sum256(data)), 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "v9.9.9"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "v9.9.9/concourse-9.9.9-linux-amd64.tgz.sha256"), fmt.Appendf(nil, "%064x\n", 1), 0o644))
	mirror := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(mirror.Close)
	file := m.read(onemachine.OptionsFile) + "release-mirror: " + mirror.URL + "\n"
	require.NoError(t, m.Root.WriteFile(onemachine.OptionsFile, []byte(file), 0o600))
	require.Contains(t, m.must("up"), "(v8.2.5)")

	before := m.everything()
	out, code := m.ran("upgrade 9.9.9")
	require.Equal(t, 1, code)
	require.Contains(t, out, "cannot change the options, so nothing was changed: ")
	require.Contains(t, out, "the server returned 404 Not Found")
	out, code = m.ran("upgrade 9.9.8")
	require.Equal(t, 1, code)
	require.Contains(t, out, "no SHA-256 of Concourse 9.9.8 for amd64 is known")
	require.Equal(t, before, m.everything())
	require.Contains(t, m.must("status"), "active: ")

	m.must("upgrade 8.2.6")
	require.Contains(t, m.must("status"), "(v8.2.6)")
}

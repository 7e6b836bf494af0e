package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

func machineOf(t *testing.T) *Machine {
	return &Machine{Root: hosttest.Root(t), units: map[string]*unit{}}
}

func TestMachineKeepsTheStateThatItsCommandsWouldLeave(t *testing.T) {
	m := machineOf(t)
	var heard []string
	m.OnUnit = func(name string, up bool) {
		if up {
			name += " up"
		}
		heard = append(heard, name)
	}
	show := func() string { return m.run([]string{"systemctl", "show", "--property=Id", "x.service"}).Stdout }
	require.Equal(t, "Id=x.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\nInvocationID=\n\n", show())
	hosttest.Put(t, m.Root, "/etc/systemd/system/x.service", "[Unit]\n")
	require.Contains(t, show(), "LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=disabled\n")
	for _, verb := range []string{"enable", "start", "start", "restart"} {
		require.Zero(t, m.run([]string{"systemctl", verb, "x"}).Code)
	}
	require.Contains(t, show(), "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nInvocationID=00000000000000000000000000000002\n", "a second start is none, a restart is")
	require.True(t, m.Up("x.service"))
	m.run([]string{"systemctl", "kill", "--signal=SIGUSR2", "x.service"})
	require.False(t, m.Up("x.service"))
	require.Equal(t, []string{"x.service up", "x.service up", "x.service"}, heard, "a second start is none, a restart is")
	require.Equal(t, []string{"systemctl enable x", "systemctl start x", "systemctl start x", "systemctl restart x",
		"systemctl kill --signal=SIGUSR2 x.service"}, m.Recorded(), "show is not recorded")
	require.Empty(t, m.Recorded(), "told once")
}

func TestMachineInstallsIntoDpkgsStatus(t *testing.T) {
	m := machineOf(t)
	require.Zero(t, m.run([]string{"apt-get", "update"}).Code)
	require.Zero(t, m.run([]string{"apt-get", "install", "--yes", "tool=1.2.*"}).Code)
	status, err := m.Root.ReadFile("/var/lib/dpkg/status")
	require.NoError(t, err)
	require.Equal(t, "Package: tool\nStatus: install ok installed\nVersion: 1.2.1\n\n", string(status))
	m.Fail = func(line string) string {
		if line == "apt-get update" {
			return "E: no network"
		}
		return ""
	}
	require.Equal(t, reply{Stderr: "E: no network\n", Code: 100}, m.run([]string{"apt-get", "update"}))
	require.Equal(t, []string{"apt-get update", "apt-get install --yes tool=1.2.*"}, m.Recorded(), "what failed did nothing")
}

func TestJournalShowsTheRegistrationWhileTheWorkerRuns(t *testing.T) {
	m := machineOf(t)
	require.Empty(t, m.run([]string{"journalctl", "--unit", "concourse-worker.service"}).Stdout)
	m.run([]string{"systemctl", "start", "concourse-worker.service"})
	require.Contains(t, m.run([]string{"journalctl"}).Stdout, "worker.beacon-runner.beacon.registered")
}

func TestResultFindsPlanAndLastStatus(t *testing.T) {
	require.Equal(t, jujutest.StatusLine{}, Result{}.Status())
	require.Empty(t, Result{Logs: []jujutest.LogLine{{Level: "INFO", Message: "hello"}}}.Plan())
	r := Result{Statuses: []jujutest.StatusLine{{Status: "maintenance"}, {Status: "active"}},
		Logs: []jujutest.LogLine{{Level: "INFO", Message: "flight:7: plan:\n1/1 write x (missing)"}}}
	require.Equal(t, "1/1 write x (missing)", r.Plan())
	require.Equal(t, "active", r.Status().Status)
}

func TestSandboxThatCannotBeMadeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := New(Options{Host: dir + "/no-such-host", Charm: dir, Exe: "/bin/true", Unit: "w/0"})
	require.ErrorContains(t, err, "cannot make a sandbox: ")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUnitThatEndsAtItsStartIsSeenTrying(t *testing.T) {
	m := machineOf(t)
	hosttest.Put(t, m.Root, "/etc/systemd/system/x.service", "[Unit]\n")
	show := func() string { return m.run([]string{"systemctl", "show", "x.service"}).Stdout }
	for sub, active := range map[string]string{"auto-restart": "activating", "failed": "failed"} {
		m.Ends = func(string) string { return sub }
		m.run([]string{"systemctl", "restart", "x"})
		require.False(t, m.Up("x.service"))
		require.Contains(t, show(), "ActiveState="+active+"\nSubState="+sub+"\n")
	}
	m.run([]string{"systemctl", "stop", "x"})
	require.Contains(t, show(), "ActiveState=inactive\nSubState=dead\n")
	m.Ends = nil
	m.run([]string{"systemctl", "start", "x"})
	require.True(t, m.Up("x.service"))
}

func TestStandInReleaseKnowsItsVersionAndADatabases(t *testing.T) {
	root, dir := hosttest.Root(t), t.TempDir()
	require.NoError(t, StandInRelease(dir+"/8.3.0.tgz", "8.3.0"))
	home := root.Path("/var/lib/concourse/releases/8.3.0")
	require.NoError(t, os.MkdirAll(home, 0o755))
	out, err := exec.Command("tar", "xzf", dir+"/8.3.0.tgz", "-C", home, "--strip-components=1").CombinedOutput()
	require.NoError(t, err, string(out))
	run := func(args ...string) (string, error) {
		out, err := exec.Command(home+"/bin/concourse", args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for _, tt := range []struct {
		args, want string
		fails      bool
	}{
		{"--version", "8.3.0", false},
		{"migrate --supported-db-version", "830", false},
		{"migrate --current-db-version", `relation "migrations_history" does not exist`, true},
		{"migrate --migrate-db-to-version=825", "", false},
		{"migrate --current-db-version", "825", false},
	} {
		got, err := run(strings.Fields(tt.args)...)
		require.Equal(t, tt.fails, err != nil, tt.args)
		require.Contains(t, got, tt.want, tt.args)
	}
}

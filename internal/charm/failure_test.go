package charm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

func TestFailuresAreClassified(t *testing.T) {
	apt := &host.CommandError{Argv: []string{"apt-get", "install", "x"}, Code: 100, Stderr: "W: old\nE: Unable to locate package x"}
	for name, tt := range map[string]struct {
		err    error
		status string // "" if the hook fails
	}{
		"apt":            {apt, "waiting: cannot do it (attempt 1): E: Unable to locate package x; no web"},
		"refused":        {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "waiting: cannot do it (attempt 1): dial: connection refused; no web"},
		"a request":      {&url.Error{Op: "Get", URL: "http://x", Err: errors.New("no")}, `waiting: cannot do it (attempt 1): Get "http://x": no; no web`},
		"says temporary": {fmt.Errorf("x: %w", &release.NetworkError{URL: "http://x", Attempts: 3, Err: errors.New("no")}), "waiting: cannot do it (attempt 1): no; no web; more: juju run concourse-ci-machine/0 check-status"},
		"no name": {fmt.Errorf("x: %w", &release.NetworkError{URL: "https://github.com/x", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Name: "github.com", Server: "127.0.0.53:53", Err: "no such host"}}}),
			"waiting: cannot do it (attempt 1): lookup github.com: no such host; no web; more: juju run concourse-ci-machine/0 check-status"},
		"no route": {&net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 443}, Err: os.NewSyscallError("connect", syscall.ENETUNREACH)},
			"waiting: cannot do it (attempt 1): 10.0.0.9:443: network is unreachable; and 1 more: juju run concourse-ci-machine/0 check-status"},
		"has a remedy":  {fmt.Errorf("x: %w", &concourse.KeyError{Path: "/k", Problem: "it is broken"}), "blocked: cannot use /k — on the unit run: sudo mv /k /k.broken; no web; more: juju run concourse-ci-machine/0 check-status"},
		"systemctl":     {&host.CommandError{Argv: []string{"systemctl", "start", "x"}, Code: 1, Stderr: "masked"}, ""},
		"no such tool":  {&host.CommandError{Argv: []string{"systemctl"}, Code: -1, Err: os.ErrNotExist}, ""},
		"disk full":     {&os.PathError{Op: "write", Path: "/x/y", Err: syscall.ENOSPC}, "blocked: disk full: no space for /x on its disk — free space there: juju ssh concourse-ci-machine/0 df -h; no web"},
		"no permission": {&os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, ""},
		"a bug":         {errors.New("what now"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := jujutest.New("concourse-ci-machine/0")
			ctx := m.Begin(jujutest.Hook("install"))
			c := charmOf(t, hosttest.Root(t), m, ctx, nil)
			err := c.failed(t.Context(), Desired{Desired: role.Desired{Causes: []status.Cause{{Kind: status.Waiting, Text: "no web"}}}}, &plan.StepError{Op: "do it", Err: tt.err})
			if tt.status == "" {
				require.ErrorIs(t, err, tt.err)
				require.ErrorContains(t, err, "cannot do it")
				require.Empty(t, m.Statuses)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.status, m.Status().Status+": "+m.Status().Message)
		})
	}
}

func TestAttemptsAreCountedByStepInAPrivateFile(t *testing.T) {
	m := jujutest.New("concourse-ci-machine/0")
	r := hosttest.Root(t)
	c := charmOf(t, r, m, m.Begin(jujutest.Hook("install")), nil)
	count := func(op string) int {
		require.NoError(t, c.failed(t.Context(), Desired{}, &plan.StepError{Op: op, Err: &net.OpError{Op: "dial", Err: errors.New("x")}}))
		last, err := recordState.Read(r)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("cannot %s (attempt %d): dial: x", op, last.Count), c.Causes(Desired{})[0].Text)
		return last.Count
	}
	require.Equal(t, []int{1, 2, 1, 1}, []int{count("a"), count("a"), count("b"), count("a")})
	st, err := r.Stat(LastRunFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	hosttest.Put(t, r, LastRunFile, "not JSON")
	require.Equal(t, 1, count("a"))
	require.NoError(t, c.record(runRecord{}))
	require.NoError(t, c.record(runRecord{}), "nothing to remove is no error")
	require.Empty(t, c.Causes(Desired{}))
	require.Equal(t, 1, count("a"))
}

func TestFailedDownloadNamesTheWayWithoutInternet(t *testing.T) {
	for program, want := range map[wellknown.Program]string{
		"":                       "juju attach-resource <application> concourse-release=<tarball>",
		wellknown.MachineProgram: "sudo concourse-ci-machine up --release=<tarball>",
	} {
		m := jujutest.New("concourse-ci-machine/0")
		c := charmOf(t, hosttest.Root(t), m, m.Begin(jujutest.Hook("install")), nil)
		c.Program = program
		down := &plan.StepError{Op: "download Concourse 8.2.5", Err: &release.NetworkError{URL: "https://github.com/x", Err: errors.New("no route")}}
		require.NoError(t, c.failed(t.Context(), Desired{}, down))
		require.Equal(t, []string{"without internet set release-mirror, or run: " + want}, c.Causes(Desired{})[0].Commands)
	}
}

// D1: the predecessor's download error stayed until some other event came.
func TestD1DownloadIsRetriedUntilTheServerAnswers(t *testing.T) {
	tarball := filepath.Join(t.TempDir(), "release.tgz")
	require.NoError(t, sandbox.StandInRelease(tarball, "8.2.5"))
	data, err := os.ReadFile(tarball)
	require.NoError(t, err)
	down := true
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		w.Write(data)
	}))
	defer mirror.Close()

	r, next := hosttest.Host(t, "no-gpu"), hosttest.NewMachine(t)
	m := jujutest.New("concourse-ci-machine/0")
	m.CharmDir = hosttest.CharmDir(t)
	m.Config = map[string]any{"mode": "worker", "release-mirror": mirror.URL, "release-sha256": fmt.Sprintf("%x", sha256.Sum256(data))}
	hook := func() string {
		t.Helper()
		ctx := m.Begin(jujutest.Hook("update-status"))
		require.NoError(t, charmOf(t, r, m, ctx, next).Hook(context.Background()))
		require.NoError(t, ctx.Commit())
		return m.Status().Status + ": " + m.Status().Message
	}
	for n := 1; n <= 6; n++ {
		kind := "waiting"
		if n >= maxAttempts {
			kind = "blocked"
		}
		require.Regexp(t, fmt.Sprintf(`^%s: cannot download Concourse 8\.2\.5 \(attempt %d\): .*\.\.\.; and 1 more: juju run concourse-ci-machine/0 check-status$`, kind, n), hook())
	}
	down = false
	require.Equal(t, "waiting: Waiting for a web — run: juju integrate concourse-ci-machine:flight <web application>:tsa", hook())
	require.False(t, r.Exists(LastRunFile))
	require.True(t, r.Exists(release.BinDir+"/concourse"))
	require.Equal(t, []string{"systemctl daemon-reload"}, next.Ran)
}

func TestFailedHookToolEndsTheHook(t *testing.T) {
	m := jujutest.New("w/0")
	ctx := m.Begin(jujutest.Hook("install"))
	ctx.Rollback() // from now on the agent refuses this hook's calls
	c := charmOf(t, hosttest.Root(t), m, ctx, hosttest.NewMachine(t))
	err := c.Hook(t.Context())
	var tool *juju.ToolError
	require.True(t, errors.As(err, &tool), "%v", err)
	require.ErrorContains(t, err, "cannot observe the configuration")
}

func TestFullDiskIsNamedInTheStatus(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 20 0:40 / /var/lib/concourse rw - zfs pool/releases rw\n")
	at := func(path string, why error) error { return &fs.PathError{Op: "write", Path: r.Path(path), Err: why} }
	const free = " — free space there: juju ssh web/0 df -h"
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a write":           {at("/var/lib/concourse-ci-machine/juju.json", syscall.ENOSPC), "disk full: no space for /var/lib/concourse-ci-machine on /dev/sda1" + free},
		"a disk of its own": {fmt.Errorf("x: %w", at("/var/lib/concourse/8.2.5/bin/concourse", syscall.ENOSPC)), "disk full: no space for /var/lib/concourse/8.2.5/bin on pool/releases" + free},
		"a quota":           {at("/etc/default/concourse", syscall.EDQUOT), "disk full: no space for /etc/default on /dev/sda1" + free},
		"a link":            {&os.LinkError{Op: "symlink", Old: "x", New: r.Path("/opt/a"), Err: syscall.ENOSPC}, "disk full: no space for /opt on /dev/sda1" + free},
		"a program": {&host.CommandError{Argv: []string{"apt-get", "install"}, Code: 100, Stderr: "E: /a (No space left on device)\nE: Sub-process failed"},
			"a disk is full (E: Sub-process failed)" + free},
		"another error": {at("/x", syscall.EACCES), ""},
		"no error":      {nil, ""},
	} {
		if cause := fullDisk(r, wellknown.Commands{Unit: "web/0"}, c.err); cause == nil {
			require.Empty(t, c.want, name)
		} else {
			require.Equal(t, c.want, cause.String(), name)
		}
	}
	require.Contains(t, fullDisk(hosttest.Root(t), wellknown.Commands{Unit: "web/0"}, at("/a/b", syscall.ENOSPC)).Text, " on its disk", "nothing is known of mounts")
}

func TestFullDiskInAStepIsAStatusUntilTheUnitIsRemoved(t *testing.T) {
	full := &plan.StepError{Op: "write /x/y", Err: &fs.PathError{Op: "write", Path: "/x/y", Err: syscall.ENOSPC}}
	for _, remove := range []bool{false, true} {
		m := jujutest.New("web/0")
		c := charmOf(t, hosttest.Root(t), m, m.Begin(jujutest.Hook("config-changed")), nil)
		err := c.failed(t.Context(), Desired{Desired: role.Desired{Remove: remove}}, full)
		if remove {
			require.ErrorIs(t, err, syscall.ENOSPC, "what is left is taken away when the hook runs again")
			continue
		}
		require.NoError(t, err)
		require.Contains(t, m.Status().Message, "disk full: no space for /x")
	}
}

// Data that only one hook has must not be lost.
func TestFullDiskBeforeTheFirstStepFailsHooksWithUniqueData(t *testing.T) {
	full := fmt.Errorf("cannot keep what Juju reports: %w", &fs.PathError{Op: "write", Path: "/x/y", Err: syscall.ENOSPC})
	for event, ends := range map[string]bool{"config-changed": true, "update-status": true, "start": true, "leader-elected": true,
		"upgrade-charm": false, "tsa-relation-departed": false, "install": false, "stop": false, "remove": false} {
		m := jujutest.New("web/0")
		c := charmOf(t, hosttest.Root(t), m, m.Begin(jujutest.Hook(event)), nil)
		err := c.showFull(t.Context(), full)
		require.Equal(t, ends, err == nil, event)
		require.Equal(t, "blocked", m.Status().Status, event)
		require.Contains(t, m.Status().Message, "disk full: no space for /x", event)
	}
}

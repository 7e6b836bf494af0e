package resource

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const attemptPath = "/var/lib/concourse-ci-machine/toolkit-attempt.json"

func TestCauseIsWhatAnOperatorCanActOn(t *testing.T) {
	apt := func(stderr string) error {
		return &host.CommandError{Argv: []string{"apt-get", "update"}, Code: 100, Stderr: stderr, Err: errors.New("exit status 100")}
	}
	const repo = "repo.radeon.com"
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no route":    {&url.Error{Op: "Get", URL: "https://repo.radeon.com", Err: &net.OpError{Op: "dial", Err: errors.New("no route")}}, "cannot reach repo.radeon.com"},
		"proxy":       {&url.Error{Op: "Get", URL: "https://repo.radeon.com", Err: &net.OpError{Op: "proxyconnect", Err: errors.New("refused")}}, "cannot reach the proxy for repo.radeon.com"},
		"certificate": {&url.Error{Op: "Get", URL: "https://repo.radeon.com", Err: x509.UnknownAuthorityError{}}, "cannot use repo.radeon.com: x509: certificate signed by unknown authority"},
		"refusal":     {&httpError{URL: "https://repo.radeon.com/rocm/rocm.gpg.key", Code: 403}, "repo.radeon.com answered 403 for https://repo.radeon.com/rocm/rocm.gpg.key"},
		"key":         {&keyError{From: "x", Reason: "its fingerprint is AA, want BB"}, "the signing key of repo.radeon.com is not AMD's: its fingerprint is AA, want BB"},
		"name":        {apt("E: Failed to fetch https://repo.radeon.com/x  Could not resolve 'repo.radeon.com'\nE: Some index files failed to download."), "cannot reach repo.radeon.com"},
		"lock":        {apt("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (unattended-upgr)"), "another apt or dpkg is at work"},
		"another host": {apt("E: Failed to fetch http://archive.ubuntu.com/x  Could not resolve 'archive.ubuntu.com'"),
			"Failed to fetch http://archive.ubuntu.com/x Could not resolve 'archive.ubuntu.com'"},
		"release": {apt("W: old\nE: The repository 'https://repo.radeon.com/x noble Release' does not have a Release file.\nN: See apt-secure(8)"),
			"The repository 'https://repo.radeon.com/x noble Release' does not have a Release file."},
		"interrupted": {apt("E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct the problem. "), "dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct the problem."},
		"deadline":    {&host.CommandError{Argv: []string{"apt-get"}, Code: -1, Timeout: 5 * time.Minute}, "apt-get gave up after 5m0s"},
		"silent":      {apt(""), `cannot run "apt-get update": exit 100`},
		"disk full":   {fmt.Errorf("write /etc/apt: %w", errors.New("no space left on device")), "write /etc/apt: no space left on device"},
		"long":        {errors.New(strings.Repeat("ü", 300)), strings.Repeat("ü", 100) + "..."},
	} {
		require.Equal(t, c.want, attemptCause(c.err, repo, "AMD"), name)
	}
}

func TestBusyAptIsTriedAgainInTheNextHook(t *testing.T) {
	a := &Attempt{Time: hosttest.Now, Attempt: 1, Error: "x"}
	require.True(t, a.Pausing(hosttest.Now.Add(time.Minute)))
	a.Busy = true
	require.False(t, a.Pausing(hosttest.Now.Add(time.Minute)))
}

func TestDamagedAttemptStopsNothing(t *testing.T) {
	for _, content := range []string{"", "{", "null", "[]", `{"attempt": -1, "error": "x"}`, `{"attempt": 2}`, `{"time": 3, "attempt": 1, "error": "x"}`, strings.Repeat(" ", 1<<20)} {
		r := hosttest.Root(t)
		hosttest.Put(t, r, attemptPath, content)
		require.Nil(t, ReadAttempt(r, attemptPath, "it"), content)
	}
	require.Nil(t, ReadAttempt(hosttest.Root(t), attemptPath, "it"))
}

func FuzzReadAttempt(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","attempt":3,"error":"cannot reach repo.radeon.com","inputs":"00"}`))
	f.Add([]byte(`{"attempt":1,"error":"a\nb"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := host.Root(t.TempDir())
		hosttest.Put(t, r, attemptPath, string(data))
		if a := ReadAttempt(r, attemptPath, "it"); a != nil {
			require.NotContains(t, a.Text(), "\n")
			require.LessOrEqual(t, len(a.Error), errorLimit+3)
		}
	})
}

// What apt and dpkg write where a package can't be installed, and which part a status
// reports.
func TestCauseOfAFailedInstallation(t *testing.T) {
	for name, c := range map[string]struct{ stderr, want string }{
		"a script failed": {"dpkg: error processing package pkg (--configure):\n installed pkg package post-installation script subprocess returned error exit status 1\n" +
			"Errors were encountered while processing:\n pkg\nE: Sub-process /usr/bin/dpkg returned an error code (1)",
			"installed pkg package post-installation script subprocess returned error exit status 1"},
		"an archive failed": {"dpkg: error processing archive /var/cache/apt/archives/pkg_1_all.deb (--unpack):\n new pkg package pre-installation script subprocess returned error exit status 1\nE: Sub-process /usr/bin/dpkg returned an error code (1)",
			"new pkg package pre-installation script subprocess returned error exit status 1"},
		"cut off": {"dpkg: error processing package pkg (--configure):", "dpkg: error processing package pkg (--configure):"},
		"on hold": {"E: Held packages were changed and -y was used without --allow-change-held-packages.",
			"it is on hold; on the unit run: sudo apt-mark unhold pkg"},
		"no such version": {"E: Version '1.4.0*' for 'pkg' was not found", "Version '1.4.0*' for 'pkg' was not found"},
	} {
		e := &host.CommandError{Argv: []string{"apt-get", "install", "pkg=1.2.0*"}, Code: 100, Stderr: c.stderr}
		require.Equal(t, c.want, attemptCause(e, "repo.radeon.com", "AMD"), name)
	}
}

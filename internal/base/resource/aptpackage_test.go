package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func stanza(name, status, version string) string {
	return fmt.Sprintf("Package: %s\nStatus: %s\nArchitecture: amd64\nVersion: %s\nDescription: a test\n Package: amd-container-toolkit\n .\n\n", name, status, version)
}

func source() AptSource {
	return AptSource{Name: "test", URIs: []string{"https://repo.example/amd/apt/1.2.0"}, Suites: []string{"noble"},
		Components: []string{"main"}, Architectures: []string{"amd64"}, SignedBy: keyPath}
}

func TestAptSourceIsDeb822(t *testing.T) {
	h, _ := machine(t)
	s := source()
	apply(t, h, s)
	have, err := h.ReadFile("/etc/apt/sources.list.d/test.sources")
	require.NoError(t, err)
	require.Equal(t, `Types: deb
URIs: https://repo.example/amd/apt/1.2.0
Suites: noble
Components: main
Architectures: amd64
Signed-By: /etc/apt/keyrings/test.gpg
`, string(have))
	require.Empty(t, diff(t, h, s))
}

func TestAptSourceRefusesWhatWouldBeAnotherField(t *testing.T) {
	h, _ := machine(t)
	for name, change := range map[string]func(*AptSource){
		"new line":     func(s *AptSource) { s.URIs[0] += "\nTrusted: yes" },
		"two words":    func(s *AptSource) { s.Suites[0] = "noble jammy" },
		"empty":        func(s *AptSource) { s.Suites[0] = "" },
		"no key":       func(s *AptSource) { s.SignedBy = "" },
		"no component": func(s *AptSource) { s.Components = nil },
		"file name":    func(s *AptSource) { s.Name = "../evil" },
	} {
		s := source()
		change(&s)
		_, err := s.Diff(context.Background(), h)
		require.ErrorContains(t, err, "cannot write apt source", name)
	}
}

func TestPackageStateIsReadFromDpkg(t *testing.T) {
	other := stanza("jq", "install ok installed", "1.7")
	for name, c := range map[string]struct {
		status    string
		want      PackageState
		installed bool
		broken    bool
	}{
		"unknown":                     {other, PackageState{}, false, false},
		"first":                       {stanza("pkg", "install ok installed", "1.2.0") + other, PackageState{Status: "installed", Version: "1.2.0"}, true, false},
		"last":                        {other + strings.TrimRight(stanza("pkg", "install ok installed", "1.2.0"), "\n"), PackageState{Status: "installed", Version: "1.2.0"}, true, false},
		"another's name as beginning": {stanza("pkg-extra", "install ok installed", "9"), PackageState{}, false, false},
		"removed":                     {other + stanza("pkg", "deinstall ok config-files", "1.2.0"), PackageState{Status: "config-files"}, false, false},
		"half":                        {stanza("pkg", "install ok half-configured", "1.2.0"), PackageState{Status: "half-configured", Version: "1.2.0"}, false, true},
		"unpacked":                    {stanza("pkg", "install ok unpacked", "1.2.0"), PackageState{Status: "unpacked", Version: "1.2.0"}, false, true},
		"bad":                         {stanza("pkg", "install reinstreq half-installed", "1.2.0"), PackageState{Status: "half-installed", Version: "1.2.0", Reinst: true}, false, true},
		"held":                        {stanza("pkg", "hold ok installed", "1.2.0"), PackageState{Status: "installed", Version: "1.2.0"}, true, false},
		"two of two architectures":    {stanza("pkg", "deinstall ok config-files", "1") + stanza("pkg", "install ok installed", "2"), PackageState{Status: "installed", Version: "2"}, true, false},
		"one of two architectures":    {stanza("pkg", "install ok installed", "2") + stanza("pkg", "deinstall ok config-files", "1"), PackageState{Status: "installed", Version: "2"}, true, false},
	} {
		h, _ := machine(t)
		hosttest.Put(t, h.Root, "/var/lib/dpkg/status", c.status)
		got, err := ReadPackage(h.Root, "pkg")
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.installed, got.Installed(), name)
		require.Equal(t, c.broken, got.Broken(), name)
	}
	h, _ := machine(t)
	got, err := ReadPackage(h.Root, "pkg")
	require.NoError(t, err)
	require.Equal(t, PackageState{}, got)
}

func TestVersionIsAWholeOneOrItsBeginning(t *testing.T) {
	for _, have := range []string{"1.2.0", "1.2.0-24.04", "1.2.0+git1", "1.2.0~noble"} {
		require.True(t, versionMatches(have, "1.2.0"), have)
	}
	for _, have := range []string{"", "1.2", "1.2.01", "1.2.0.1", "1.2.0rc1", "11.2.0"} {
		require.False(t, versionMatches(have, "1.2.0"), have)
	}
	require.True(t, versionMatches("7", ""))
}

const lists = "/var/lib/apt/lists/"

// B16, D38: apt waits for locks, asks nothing and restarts nothing.
func TestPackageIsInstalledWithoutTouchingLocks(t *testing.T) {
	h, r := machine(t)
	hosttest.Put(t, h.Root, lists+"archive.ubuntu.com_ubuntu_dists_noble_InRelease", "x")
	hosttest.Put(t, h.Root, "/var/lib/dpkg/lock-frontend", "")
	s := source()
	p := Package{Name: "pkg", Version: "1.2.0", Source: &s, Proxies: Proxies{HTTP: "http://u:secret@p:1"}}
	answer := func(c host.Command) (string, error) {
		require.Contains(t, c.Env, "DEBIAN_FRONTEND=noninteractive")
		require.Contains(t, c.Env, "NEEDRESTART_MODE=l")
		require.Contains(t, c.Env, "http_proxy=http://u:secret@p:1")
		require.NotContains(t, c.String(), "secret")
		require.False(t, c.ReadOnly)
		require.GreaterOrEqual(t, c.Deadline, updateLimit)
		return "", nil
	}
	r.On("apt-get update", answer).On("apt-get install", func(c host.Command) (string, error) {
		hosttest.Put(t, h.Root, "/var/lib/dpkg/status", stanza("pkg", "install ok installed", "1.2.0-24.04"))
		return answer(c)
	})
	steps := apply(t, h, p)
	require.Equal(t, "update package lists for pkg", steps[0].Op)
	require.Equal(t, "install pkg", steps[1].Op)
	require.Equal(t, "not installed", steps[1].Why)
	require.Equal(t, []string{
		"apt-get update --error-on=any -o Dir::Etc::sourcelist=sources.list.d/test.sources -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0",
		"apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold pkg=1.2.0*",
	}, r.Ran)
	require.Empty(t, r.Asked)
	require.True(t, h.Exists("/var/lib/dpkg/lock-frontend"))
	require.Empty(t, diff(t, h, p))
}

// apt-get does nothing after a dpkg that was killed.
func TestKilledDpkgIsCompleted(t *testing.T) {
	h, r := machine(t)
	const journal = "/var/lib/dpkg/updates/0001"
	hosttest.Put(t, h.Root, journal, "")
	r.Answer("apt-get update", "").On("dpkg", func(c host.Command) (string, error) {
		require.Contains(t, c.Env, "DEBIAN_FRONTEND=noninteractive")
		return "", h.Remove(journal)
	}).On("apt-get install", func(host.Command) (string, error) {
		if h.Exists(journal) {
			return "", errors.New("dpkg was interrupted")
		}
		hosttest.Put(t, h.Root, "/var/lib/dpkg/status", stanza("pkg", "install ok installed", "1"))
		return "", nil
	})
	apply(t, h, Package{Name: "pkg"})
	require.Len(t, r.Ran, 4)
	require.Equal(t, "dpkg --force-confdef --force-confold --configure -a", r.Ran[2])
}

func TestAllListsAreFetchedIfTheMachineHasNone(t *testing.T) {
	s := source()
	for name, have := range map[string]string{
		"nothing":      "lock",
		"only its own": "repo.example_amd_apt_1.2.0_dists_noble_InRelease",
	} {
		h, r := machine(t)
		hosttest.Put(t, h.Root, lists+have, "x")
		r.Answer("apt-get update", "").Answer("apt-get install", "")
		apply(t, h, Package{Name: "pkg", Source: &s})
		require.Equal(t, "apt-get update --error-on=any", r.Ran[0], name)
		require.True(t, strings.HasSuffix(r.Ran[1], " pkg"), name)
	}
}

func TestPackageStepHasTheReason(t *testing.T) {
	for name, c := range map[string]struct{ status, why, argv string }{
		"half-configured": {"install ok half-configured", "half-configured: an earlier installation did not finish", " pkg=1.2.0*"},
		"reinstreq":       {"install reinstreq half-installed", "half-installed: an earlier installation did not finish", " --reinstall pkg=1.2.0*"},
	} {
		h, r := machine(t)
		hosttest.Put(t, h.Root, "/var/lib/dpkg/status", stanza("pkg", c.status, "1.2.0"))
		r.Answer("apt-get update", "").Answer("apt-get install", "")
		p := apply(t, h, Package{Name: "pkg", Version: "1.2.0"})
		require.Equal(t, c.why, p[1].Why, name)
		require.True(t, strings.HasSuffix(r.Ran[1], c.argv), r.Ran[1])
	}
	h, r := machine(t)
	hosttest.Put(t, h.Root, "/var/lib/dpkg/status", stanza("pkg", "install ok installed", "1.3.0-1"))
	r.Answer("apt-get update", "").Answer("apt-get install", "")
	p := apply(t, h, Package{Name: "pkg", Version: "1.2.0-1"})
	require.Equal(t, "version 1.3.0-1, want 1.2.0-1", p[1].Why)
	require.True(t, strings.HasSuffix(r.Ran[1], " --allow-downgrades pkg=1.2.0-1"), r.Ran[1])
}

func TestUpdateWaitsWhileAnotherAptHasTheLists(t *testing.T) {
	h, r := machine(t)
	tries := 0
	r.On("apt-get update", func(c host.Command) (string, error) {
		if tries++; tries < 3 {
			return "", &host.CommandError{Argv: c.Argv, Code: 100, Stderr: "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\nE: Unable to lock directory /var/lib/apt/lists/"}
		}
		return "", nil
	}).Answer("apt-get install", "")
	apply(t, h, Package{Name: "pkg", pause: 1})
	require.Equal(t, 3, tries)

	tries = -1000000
	err := diff(t, h, Package{Name: "pkg", pause: 1})[0].Do(context.Background())
	require.True(t, aptBusy(err), "it gives up in the end")
	require.Equal(t, -1000000+listsAttempts, tries)

	r.Fail("apt-get update", 100, "E: Failed to fetch")
	err = diff(t, h, Package{Name: "pkg", pause: 1})[0].Do(context.Background())
	require.Error(t, err)
	require.False(t, aptBusy(err))
}

func FuzzFindPackage(f *testing.F) {
	f.Add([]byte(stanza("pkg", "install ok installed", "1.2.0")+stanza("jq", "hold reinstreq unpacked", "1")), "pkg")
	f.Add([]byte("Package: pkg\n"), "pkg")
	f.Add([]byte("\n\nPackage: pkg\nStatus: x\nVersion:"), "pkg")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		s := findPackage(data, name)
		require.False(t, s.Installed() && s.Broken())
	})
}

//go:build e2e

package rocm

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

const (
	toolkit    = "amd-container-toolkit"
	repository = "/amd-container-toolkit/apt"
	ready      = "active: Worker ready (v8.2.5) (GPU: 1x AMD)"
	attempt    = "/var/lib/concourse-ci-machine/toolkit-attempt.json"
)

// toolkitUnit is a worker with one GPU and a site that has the toolkit.
func toolkitUnit(t *testing.T) (*unit, *site) {
	t.Helper()
	need(t)
	s := newSite(t)
	s.put("/rocm/rocm.gpg.key", keys.good.public)
	s.publish(repository, keys.good, time.Time{}, toolkit)
	return newUnit(t, "amd", map[string]any{"compute-runtime": "rocm", "amd-container-toolkit": "auto", "rocm-base-url": s.url()}), s
}

// later makes the last failed attempt one of half an hour ago, after which the
// charm tries again.
func (u *unit) later(attempt string) {
	u.t.Helper()
	data, err := u.Root.ReadFile(attempt)
	require.NoError(u.t, err)
	var a resource.Attempt
	require.NoError(u.t, json.Unmarshal(data, &a))
	a.Time = a.Time.Add(-31 * time.Minute)
	data, err = json.Marshal(a)
	require.NoError(u.t, err)
	u.put(attempt, string(data))
}

// heals expects the next hook to install the toolkit and the one after to find
// nothing to do.
func (u *unit) heals() {
	u.t.Helper()
	u.later(attempt)
	u.hook("update-status")
	u.installed()
}

func (u *unit) installed() {
	u.t.Helper()
	require.Equal(u.t, "ii 1.3.0~24.04", u.dpkg(toolkit))
	require.Equal(u.t, ready, u.status())
	require.False(u.t, u.Root.Exists(attempt))
	require.NotContains(u.t, u.hook("update-status").Plan(), toolkit)
	require.Equal(u.t, ready, u.status())
}

// The plan's own words, and a second run right after it that plans nothing.
func TestToolkitComesFromASignedRepository(t *testing.T) {
	t.Parallel()
	u, s := toolkitUnit(t)
	plan := u.hook("install").Plan()
	for _, step := range []string{"fetch apt key /etc/apt/keyrings/concourse-ci-amd.gpg (missing)",
		"update package lists for amd-container-toolkit (not installed)", "install amd-container-toolkit (not installed)"} {
		require.Contains(t, plan, step)
	}
	u.installed()
	require.NotContains(t, strings.Join(s.asked, "\n"), "deb.debian.org", "no other source is asked")
}

// Each failure has its text in the status while the worker runs, and a later run
// heals it.
func TestFailedInstallationShowsWhyAndHeals(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(u *unit, s *site)
		status string // after "amd-container-toolkit not installed: "; SITE is the site's address
		mends  func(u *unit, s *site)
	}{
		"wrong key": {
			func(u *unit, s *site) { s.put("/rocm/rocm.gpg.key", keys.other.public) },
			"the signing key of SITE is not AMD's: its fingerprint is OTHER, want GOOD",
			func(u *unit, s *site) { s.put("/rocm/rocm.gpg.key", keys.good.public) },
		},
		"no key": {
			func(u *unit, s *site) { s.put("/rocm/rocm.gpg.key", []byte("<html>Not here</html>")) },
			"the signing key of SITE is not AMD's: ",
			func(u *unit, s *site) { s.put("/rocm/rocm.gpg.key", keys.good.public) },
		},
		"signed by somebody else": {
			func(u *unit, s *site) { s.publish(repository, keys.other, time.Time{}, toolkit) },
			"The repository 'http://SITE/amd-container-toolkit/apt noble InRelease' is not signed.",
			func(u *unit, s *site) { s.publish(repository, keys.good, time.Time{}, toolkit) },
		},
		"expired": {
			func(u *unit, s *site) {
				s.publish(repository, keys.good, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), toolkit)
			},
			"Release file for http://SITE/amd-container-toolkit/apt/dists/noble/InRelease is expired",
			func(u *unit, s *site) { s.publish(repository, keys.good, time.Time{}, toolkit) },
		},
		"empty": {
			func(u *unit, s *site) { s.publish(repository, keys.good, time.Time{}) },
			"Unable to locate package amd-container-toolkit",
			func(u *unit, s *site) { s.publish(repository, keys.good, time.Time{}, toolkit) },
		},
		"half-configured": {
			func(u *unit, s *site) { u.put(broken(toolkit), "") },
			"installed amd-container-toolkit package post-installation script subprocess returned error exit status 1",
			func(u *unit, s *site) {
				require.Equal(u.t, "iF 1.3.0~24.04", u.dpkg(toolkit))
				u.remove(broken(toolkit))
			},
		},
		"held": { // auto is content with any version
			func(u *unit, s *site) {
				require.NoError(u.t, u.Model.SetConfig("amd-container-toolkit", "1.3.0"))
				require.NoError(u.t, u.Root.WriteFile("/srv/old.deb", stock[toolkit+" 1.1.0"].data, 0o644))
				u.must("dpkg", "--install", "/srv/old.deb")
				u.must("apt-mark", "hold", toolkit)
			},
			"it is on hold; on the unit run: sudo apt-mark unhold amd-container-toolkit",
			func(u *unit, s *site) { u.must("apt-mark", "unhold", toolkit) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, s := toolkitUnit(t)
			c.breaks(u, s)
			u.hook("install")
			address := strings.NewReplacer("SITE", s.addr, "GOOD", keys.good.fingerprint, "OTHER", keys.other.fingerprint)
			require.Contains(t, u.status(), ready)
			require.Contains(t, u.status(), toolkit+" not installed: "+address.Replace(c.status))
			require.Contains(t, u.status(), "(attempt 1)")
			require.NotContains(t, u.hook("update-status").Plan(), toolkit, "it waits before it tries again")
			u.later(attempt)
			u.hook("update-status")
			require.Contains(t, u.status(), "(attempt 2)")
			c.mends(u, s)
			u.heals()
		})
	}
}

// A site without a way to AMD has healthy units; when there is one, the toolkit comes.
func TestUnreachableRepositoryIsNotInTheStatus(t *testing.T) {
	t.Parallel()
	u, s := toolkitUnit(t)
	s.stop()
	u.hook("install")
	require.Contains(t, u.status(), ready)
	require.NotContains(t, u.status(), toolkit)
	require.NotContains(t, u.hook("update-status").Plan(), toolkit, "it waits before it tries again")
	s.start()
	u.heals()
}

// AMD's package refuses a kernel without amdgpu. The charm knows before and does
// not ask apt.
func TestToolkitIsNotTriedWithoutADriver(t *testing.T) {
	t.Parallel()
	u, s := toolkitUnit(t)
	module := "/sys/module/amdgpu"
	require.NoError(t, u.inside(func() error { return rename(module, module+".gone") }))
	u.put("/srv/t.deb", string(stock[toolkit].data))
	out, err := u.run("dpkg", "--install", "/srv/t.deb")
	require.Error(t, err, "the package itself does not refuse")
	require.Contains(t, out, "amdgpu driver not found")
	u.must("dpkg", "--purge", "--force-all", toolkit)

	u.hook("install")
	require.Contains(t, u.status(), toolkit+" not installed: its package needs the kernel driver amdgpu")
	require.Empty(t, s.asked)
	require.NoError(t, u.inside(func() error { return rename(module+".gone", module) }))
	u.hook("update-status")
	u.installed()
}

// Another apt at work is waited for, and its locks stay its own.
func TestInstallationWaitsForAnotherApt(t *testing.T) {
	for name, file := range map[string]string{"dpkg's": "/var/lib/dpkg/lock-frontend", "the lists'": "/var/lib/apt/lists/lock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, _ := toolkitUnit(t)
			met, free := u.hold(file)
			done := make(chan error, 1)
			go func() { done <- u.inside(func() error { _, err := u.Hook("install"); return err }) }()
			require.True(t, met(), "no apt-get has come to the lock")
			require.Empty(t, u.dpkg(toolkit))
			free()
			require.NoError(t, <-done)
			u.installed()
		})
	}
}

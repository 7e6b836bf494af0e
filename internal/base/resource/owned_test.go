package resource

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const tool = "vendor-tool"

func toolHost(t *testing.T) (host.Host, *hosttest.Runner) {
	r := hosttest.NewRunner(t).Answer("apt-get update", "")
	h := host.Host{Root: hosttest.Root(t), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	r.On("apt-get install", func(host.Command) (string, error) { dpkgSays(t, h, "install ok installed"); return "", nil })
	r.Answer("apt-get remove --yes -o DPkg::Lock::Timeout=600 --simulate", "Remv "+tool+" [1.0]\n")
	r.On("apt-get remove", func(host.Command) (string, error) { dpkgSays(t, h, "deinstall ok config-files"); return "", nil })
	return h, r
}

func dpkgSays(t *testing.T, h host.Host, status string) {
	hosttest.Put(t, h.Root, "/var/lib/dpkg/status", fmt.Sprintf("Package: %s\nStatus: %s\nVersion: 1.0\n\n", tool, status))
}

func done(t *testing.T, h host.Host, r plan.Resource) (plan.Plan, []plan.Note, error) {
	t.Helper()
	p, err := r.Diff(context.Background(), h)
	require.NoError(t, err)
	notes, err := p.Apply(context.Background(), nil)
	return p, notes, err
}

func TestPackageOfTheCharmIsRemoved(t *testing.T) {
	h, r := toolHost(t)
	_, _, err := done(t, h, OwnedPackage{Package{Name: tool}})
	require.NoError(t, err)
	data, err := h.ReadText(OwnedFile)
	require.NoError(t, err)
	require.Equal(t, `{"format_version":1,"packages":["vendor-tool"]}`, data)

	p, notes, err := done(t, h, RemoveOwned{Name: tool, Why: "compute-runtime is none"})
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Len(t, p, 1)
	require.Equal(t, "remove package vendor-tool", p[0].Op)
	require.Equal(t, "apt-get remove --yes -o DPkg::Lock::Timeout=600 vendor-tool", r.Ran[len(r.Ran)-1])
	require.False(t, h.Exists(OwnedFile))
	p, _, _ = done(t, h, RemoveOwned{Name: tool, Why: ""})
	require.Empty(t, p, "a second run plans nothing")
}

func TestEarlierPackageStays(t *testing.T) {
	h, r := toolHost(t)
	dpkgSays(t, h, "install ok installed")
	_, _, err := done(t, h, OwnedPackage{Package{Name: tool, Version: "2.0"}}) // another version is not another owner
	require.NoError(t, err)
	require.False(t, h.Exists(OwnedFile))
	ran := len(r.Ran)
	p, _, err := done(t, h, RemoveOwned{Name: tool, Why: ""})
	require.NoError(t, err)
	require.Empty(t, p)
	require.Len(t, r.Ran, ran)
}

// An operator who builds on the package makes it theirs.
func TestPackageThatOthersNeedStays(t *testing.T) {
	h, r := toolHost(t)
	_, _, err := done(t, h, OwnedPackage{Package{Name: tool}})
	require.NoError(t, err)
	r.Answer("apt-get remove --yes -o DPkg::Lock::Timeout=600 --simulate", "Remv site-stack [3]\nRemv "+tool+" [1.0]\n")
	_, notes, err := done(t, h, RemoveOwned{Name: tool, Why: ""})
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.ErrorContains(t, notes[0].Err, "cannot remove package vendor-tool: site-stack needs it; it stays")
	p, _, _ := done(t, h, RemoveOwned{Name: tool, Why: ""})
	require.Empty(t, p, "said once")
}

// A hook that is killed between any two things leaves what the next one mends.
func TestPackageIsRecordedBeforeItsInstallation(t *testing.T) {
	h, r := toolHost(t)
	r.On("apt-get install", func(host.Command) (string, error) {
		require.True(t, h.Exists(OwnedFile))
		return "", errors.New("killed")
	})
	_, _, err := done(t, h, OwnedPackage{Package{Name: tool}})
	require.Error(t, err)
	require.False(t, h.Exists(OwnedFile), "the operator may install it now")

	hosttest.Put(t, h.Root, OwnedFile, `{"format_version":1,"packages":["vendor-tool"]}`)
	p, _, err := done(t, h, RemoveOwned{Name: tool, Why: ""})
	require.NoError(t, err)
	require.Equal(t, "forget that vendor-tool was the charm's", p[0].Op)
	require.False(t, h.Exists(OwnedFile))

	r.Fail("apt-get remove", 100, "E: Could not get lock")
	r.Fail("apt-get remove --yes -o DPkg::Lock::Timeout=600 --simulate", 100, "E: Could not get lock")
	hosttest.Put(t, h.Root, OwnedFile, `{"format_version":1,"packages":["vendor-tool"]}`)
	dpkgSays(t, h, "install ok installed")
	_, notes, err := done(t, h, RemoveOwned{Name: tool, Why: ""})
	require.NoError(t, err, "tolerated")
	require.Len(t, notes, 1)
	require.True(t, h.Exists(OwnedFile), "the next run tries again")
}

func FuzzReadOwned(f *testing.F) {
	f.Add([]byte(`{"packages":["a"]}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := host.Root(t.TempDir())
		hosttest.Put(t, r, OwnedFile, string(data))
		_, err := readOwned(r)
		require.NoError(t, err)
	})
}

func TestFlatRepository(t *testing.T) {
	h, _ := toolHost(t)
	s := AptSource{Name: "flat", URIs: []string{"https://nvidia.github.io/libnvidia-container/stable/deb/amd64"}, Suites: []string{"/"},
		Architectures: []string{"amd64"}, SignedBy: "/etc/apt/keyrings/x.gpg"}
	_, _, err := done(t, h, s)
	require.NoError(t, err)
	text, err := h.ReadText(s.Path())
	require.NoError(t, err)
	require.NotContains(t, text, "Components")
	require.Contains(t, text, "Suites: /\n")
	require.True(t, s.lists("nvidia.github.io_libnvidia-container_stable_deb_amd64_InRelease"))
	require.False(t, s.lists("archive.ubuntu.com_ubuntu_dists_noble_InRelease"))
	s.Components = []string{"main"}
	_, err = s.Diff(context.Background(), h)
	require.ErrorContains(t, err, "a flat repository has no Components")
}

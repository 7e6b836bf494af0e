package amd

import (
	"context"
	"crypto/sha1"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// keyBody is the smallest public key: an Ed25519 key of version 4.
const keyBody = "\x04\x00\x00\x00\x01\x16\x09\x2b\x06\x01\x04\x01\xda\x47\x0f\x01\x01\x07\x40" +
	"0123456789abcdefghijklmnopqrstuv"

var keyFile = append([]byte{0x99, 0, byte(len(keyBody))}, keyBody...)

// unit is a machine with the driver, and the toolkit as wanted on it.
func unit(t *testing.T, base string) (host.Host, *hosttest.Runner, Toolkit) {
	r := hosttest.NewRunner(t)
	h := host.Host{Root: hosttest.Root(t), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	require.NoError(t, h.MkdirAll(driverDir, 0o755))
	return h, r, Toolkit{Mode: ToolkitAuto, BaseURL: base, Series: "noble", Arch: "amd64",
		Now: hosttest.Now, fingerprint: fmt.Sprintf("%x", sha1.Sum(keyFile))}
}

func mirror(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/rocm/rocm.gpg.key" {
			http.NotFound(w, r)
			return
		}
		w.Write(keyFile)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// hook is one run: observe, decide, plan, apply.
func hook(t *testing.T, h host.Host, k Toolkit) (ToolkitDesired, plan.Plan, []plan.Note, error) {
	t.Helper()
	var err error
	k.Seen, err = ObserveToolkit(h.Root)
	require.NoError(t, err)
	w := k.Desire()
	p, err := plan.Diff(context.Background(), h, w.Resources...)
	require.NoError(t, err)
	notes, err := p.Apply(context.Background(), nil)
	return w, p, notes, err
}

func dpkg(t *testing.T, h host.Host, status, version string) {
	hosttest.Put(t, h.Root, "/var/lib/dpkg/status",
		fmt.Sprintf("Package: %s\nStatus: %s\nVersion: %s\n\n", ToolkitPackage, status, version))
}

// One keyring, key verified, apt that asks nothing.
func TestToolkitIsInstalledFromAMDsRepository(t *testing.T) {
	base := mirror(t)
	h, r, k := unit(t, base+"/")
	r.Answer("apt-get update", "").On("apt-get install", func(host.Command) (string, error) {
		dpkg(t, h, "install ok installed", "1.3.0~24.04")
		return "", nil
	})
	w, p, notes, err := hook(t, h, k)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Empty(t, w.Note+w.Blocked)
	var ops []string
	for _, s := range p {
		ops = append(ops, s.Op+" ("+s.Why+")")
	}
	require.Equal(t, []string{
		"fetch apt key /etc/apt/keyrings/concourse-ci-amd.gpg (missing)",
		"write /etc/apt/sources.list.d/concourse-ci-amd-container-toolkit.sources (missing)",
		"update package lists for amd-container-toolkit (not installed)",
		"install amd-container-toolkit (not installed)",
	}, ops)
	text, err := h.ReadText("/etc/apt/sources.list.d/concourse-ci-amd-container-toolkit.sources")
	require.NoError(t, err)
	require.Equal(t, `Types: deb
URIs: `+base+`/amd-container-toolkit/apt
Suites: noble
Components: main
Architectures: amd64
Signed-By: /etc/apt/keyrings/concourse-ci-amd.gpg`, text)
	require.Len(t, r.Ran, 2)
	require.True(t, strings.HasSuffix(r.Ran[1], " amd-container-toolkit"), r.Ran[1])

	_, p, _, err = hook(t, h, k)
	require.NoError(t, err)
	require.Empty(t, p, "a second run plans nothing")

	k.fingerprint = ""
	k.Seen, err = ObserveToolkit(h.Root)
	require.NoError(t, err)
	p, err = plan.Diff(context.Background(), h, k.Desire().Resources...)
	require.NoError(t, err)
	require.Equal(t, "replace apt key /etc/apt/keyrings/concourse-ci-amd.gpg", p[0].Op, "outside tests the key is AMD's")
	require.Contains(t, p[0].Why, KeyFingerprint)
}

// V4: an unknown codename used to become noble without a word.
func TestToolkitNeedsAKnownSeriesArchitectureAndDriver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, host.Host, *Toolkit)
		want   string
	}{
		"series": {func(_ *testing.T, _ host.Host, k *Toolkit) { k.Series = "plucky" },
			"amd-container-toolkit not installed: AMD has no packages for plucky, only for jammy, noble, resolute; use one of these"},
		"no series": {func(_ *testing.T, _ host.Host, k *Toolkit) { k.Series = "" },
			"amd-container-toolkit not installed: AMD has no packages for an unknown series, only for jammy, noble, resolute; use one of these"},
		"architecture": {func(_ *testing.T, _ host.Host, k *Toolkit) { k.Arch = "arm64" },
			"amd-container-toolkit not installed: AMD has no packages for arm64, only for amd64"},
		"driver": {func(t *testing.T, h host.Host, _ *Toolkit) { require.NoError(t, h.Remove(driverDir)) },
			"amd-container-toolkit not installed: its package needs the kernel driver amdgpu; load it on the host (modprobe amdgpu)"},
	} {
		h, r, k := unit(t, "")
		c.change(t, h, &k)
		w, p, _, err := hook(t, h, k)
		require.NoError(t, err, name)
		if slices.Contains(toolkitSeries, k.Series) {
			require.Equal(t, c.want, w.Note, name)
		} else {
			require.Empty(t, w.Note, name+": tasks do not need it")
		}
		require.Empty(t, w.Blocked, name)
		require.Empty(t, p, name)

		k.Mode = ToolkitRequired
		w, p, _, err = hook(t, h, k)
		require.NoError(t, err, name)
		require.Empty(t, w.Note, name)
		require.Equal(t, c.want+", or set amd-container-toolkit=auto", w.Blocked, name)
		require.Empty(t, p, name)

		k.Mode = ToolkitSkip
		w, p, _, err = hook(t, h, k)
		require.NoError(t, err, name)
		require.Empty(t, w.Note+w.Blocked, name)
		require.Empty(t, p, name)
		require.Empty(t, r.Ran, name)
	}
}

// Versions before 1.3.0 have a folder of their own, and no package for Ubuntu 26.04.
func TestVersionDecidesTheFolderOfTheRepository(t *testing.T) {
	for name, c := range map[string]struct{ version, series, folder, note string }{
		"the newest":           {"", "noble", "/apt", ""},
		"the newest for 26.04": {"", "resolute", "/apt", ""},
		"1.3.0":                {"1.3.0", "resolute", "/apt", ""},
		"a later one":          {"1.10.0", "noble", "/apt", ""},
		"a later major one":    {"2.0.0", "noble", "/apt", ""},
		"an earlier one":       {"1.2.0", "noble", "/apt/1.2.0", ""},
		"an earlier one for 26.04": {"1.2.0", "resolute", "",
			"amd-container-toolkit not installed: AMD has no 1.2.0 for resolute; set amd-container-toolkit=1.3.0"},
	} {
		h, _, k := unit(t, "https://mirror.example")
		k.Version, k.Series = c.version, c.series
		var err error
		k.Seen, err = ObserveToolkit(h.Root)
		require.NoError(t, err)
		w := k.Desire()
		require.Equal(t, c.note, w.Note, name)
		if c.folder != "" {
			source := w.Resources[0].(resource.Chain).Links[1].(resource.AptSource)
			require.Equal(t, []string{"https://mirror.example/amd-container-toolkit" + c.folder}, source.URIs, name)
		}
	}
}

func TestInstalledToolkitStaysWithoutItsDriver(t *testing.T) {
	h, _, k := unit(t, mirror(t))
	require.NoError(t, h.Remove(driverDir))
	dpkg(t, h, "install ok installed", "1.2.0")
	w, _, notes, err := hook(t, h, k)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Empty(t, w.Note+w.Blocked)
}

func TestToolkitRefusesValuesThatWouldEndUpInAURL(t *testing.T) {
	for name, change := range map[string]func(*Toolkit){
		"version path":  func(k *Toolkit) { k.Version = "../1" },
		"version words": func(k *Toolkit) { k.Version = "1.2.0\nTrusted: yes" }, "version latest": func(k *Toolkit) { k.Version = "latest" },
		"url": func(k *Toolkit) { k.BaseURL = "repo.example" }, "url words": func(k *Toolkit) { k.BaseURL = "https://repo.example/a b" },
		"url scheme":   func(k *Toolkit) { k.BaseURL = "file:///x" },
		"url password": func(k *Toolkit) { k.BaseURL = "https://u:secret@repo.example" },
	} {
		h, _, k := unit(t, "")
		change(&k)
		w, p, _, err := hook(t, h, k)
		require.NoError(t, err, name)
		require.NotEmpty(t, w.Blocked, name)
		require.NotContains(t, w.Blocked, "secret", name)
		require.Empty(t, p, name)
	}
}

func TestRequiredToolkitEndsTheRunAtTheFirstFailure(t *testing.T) {
	h, r, k := unit(t, mirror(t))
	k.Mode = ToolkitRequired
	r.Fail("apt-get update", 100, "E: Failed to fetch http://x  Could not connect to x")
	_, _, notes, err := hook(t, h, k)
	var failed *plan.StepError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "update package lists for amd-container-toolkit", failed.Op)
	require.Empty(t, notes)
	require.Len(t, r.Ran, 1)

	w, p, _, err := hook(t, h, k)
	require.Error(t, err)
	require.Empty(t, w.Note, "required is tried in every hook")
	require.Len(t, p, 2)
	require.Equal(t, 2, ReadAttempt(h.Root).Attempt)
}

func TestChangedInputsAreTriedAtOnce(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	h, r, k := unit(t, dead.URL)
	_, p, notes, err := hook(t, h, k)
	require.NoError(t, err)
	require.Len(t, notes, len(p))
	address := strings.TrimPrefix(dead.URL, "http://")
	require.Equal(t, "amd-container-toolkit not installed: cannot reach "+address+" (attempt 1)", ReadAttempt(h.Root).Text())

	k.BaseURL = mirror(t)
	r.Answer("apt-get update", "").Answer("apt-get install", "")
	w, p, notes, err := hook(t, h, k)
	require.NoError(t, err)
	require.Empty(t, w.Note)
	require.Len(t, p, 4)
	require.Empty(t, notes)
	require.Nil(t, ReadAttempt(h.Root), "success forgets the failure")
}

// Many sites have no way to AMD, and their tasks get GPUs all the same: auto means: if the
// repository can be reached.
func TestUnreachableRepositoryIsNotInTheStatus(t *testing.T) {
	h, r, k := unit(t, mirror(t))
	address := strings.TrimPrefix(k.BaseURL, "http://")
	r.Fail("apt-get update", 100, "W: Some index files failed to download.\nE: Failed to fetch "+k.BaseURL+"/x  Could not connect to "+
		address+" (192.0.2.1). - connect (113: No route to host)\nE: Some index files failed to download. They have been ignored, or old ones used instead.")
	_, _, notes, err := hook(t, h, k)
	require.NoError(t, err, "what follows goes on")
	require.Len(t, notes, 2)
	var kept *resource.RecordedError
	require.ErrorAs(t, notes[0].Err, &kept)

	k.Now = hosttest.Now.Add(time.Minute)
	w, p, _, err := hook(t, h, k)
	require.NoError(t, err)
	require.Empty(t, p, "the pause is kept")
	require.Empty(t, w.Note)
	last := ReadAttempt(h.Root)
	require.True(t, last.Unreachable)
	require.Equal(t, "amd-container-toolkit not installed: cannot reach "+address+" (attempt 1)", last.Text(), "for check-status")
	require.Empty(t, ToolkitNote(last))
	require.Empty(t, ToolkitNote(nil))
}

func TestFailedToolkitIsRetriedAfterHalfAnHour(t *testing.T) {
	h, r, k := unit(t, mirror(t))
	r.Fail("apt-get update", 100, "E: Release file for "+k.BaseURL+" is expired\n")
	text := func(n int) string {
		return fmt.Sprintf("amd-container-toolkit not installed: Release file for %s is expired (attempt %d)", k.BaseURL, n)
	}
	_, _, notes, err := hook(t, h, k)
	require.NoError(t, err, "what follows goes on")
	require.Len(t, notes, 2)
	require.NotErrorIs(t, notes[0].Err, resource.ErrSkipped)
	require.ErrorIs(t, notes[1].Err, resource.ErrSkipped)
	st, err := h.Stat(attemptPath)
	require.NoError(t, err)
	require.Equal(t, "-rw-------", st.Mode().String())

	for _, c := range []struct {
		later time.Duration
		tried bool
		note  string
	}{{time.Second, false, text(1)}, {29 * time.Minute, false, text(1)}, {31 * time.Minute, true, ""}} {
		before := len(r.Ran)
		k.Now = hosttest.Now.Add(c.later)
		h.Clock = hosttest.Clock{T: k.Now}
		w, p, _, err := hook(t, h, k)
		require.NoError(t, err)
		require.Equal(t, c.tried, len(p) > 0, c.later)
		require.Equal(t, c.tried, len(r.Ran) > before, c.later)
		require.Equal(t, c.note, w.Note)
	}
	require.Equal(t, text(2), ReadAttempt(h.Root).Text())

	k.Now = hosttest.Now.Add(-time.Hour)
	w, p, _, err := hook(t, h, k)
	require.NoError(t, err)
	require.NotEmpty(t, p, "a clock that was set back stops nothing")
	require.Empty(t, w.Note)

	dpkg(t, h, "install ok installed", "1.2.0") // by hand
	k.Now = hosttest.Now.Add(2 * time.Hour)
	_, p, _, err = hook(t, h, k)
	require.NoError(t, err)
	require.Equal(t, "remove "+attemptPath, p[0].Op)
	require.Nil(t, ReadAttempt(h.Root))
	_, p, _, err = hook(t, h, k)
	require.NoError(t, err)
	require.Empty(t, p)
}

func TestStoppedHookIsNotAFailedAttempt(t *testing.T) {
	h, r, k := unit(t, mirror(t))
	ctx, cancel := context.WithCancel(context.Background())
	r.On("apt-get update", func(host.Command) (string, error) { cancel(); return "", context.Canceled })
	k.Seen.Driver = true
	p, err := plan.Diff(ctx, h, k.Desire().Resources...)
	require.NoError(t, err)
	_, err = p.Apply(ctx, nil)
	require.NoError(t, err)
	require.Nil(t, ReadAttempt(h.Root))
	require.Len(t, r.Ran, 1)
}

package nvidia

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// keyBody is the smallest public key: an Ed25519 key of version 4.
const keyBody = "\x04\x00\x00\x00\x01\x16\x09\x2b\x06\x01\x04\x01\xda\x47\x0f\x01\x01\x07\x40" +
	"0123456789abcdefghijklmnopqrstuv"

var keyFile = append([]byte{0x99, 0, byte(len(keyBody))}, keyBody...)

// unit is a machine with an NVIDIA GPU with a driver that runs.
func unit(t *testing.T) (host.Host, *hosttest.Runner, Toolkit) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/gpgkey" {
			http.NotFound(w, r)
			return
		}
		w.Write(keyFile)
	}))
	t.Cleanup(s.Close)
	r := hosttest.NewRunner(t)
	h := host.Host{Root: hosttest.Host(t, "nvidia-only"), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	hosttest.Put(t, h.Root, "/sys/module/nvidia/version", "550.54.14\n")
	inv, err := gpu.Discover(h.Root)
	require.NoError(t, err)
	r.Answer("apt-get update", "").On("apt-get install", func(host.Command) (string, error) {
		installed(t, h, "1.17.8-1")
		return "", nil
	})
	r.Answer("nvidia-ctk", generated(t))
	return h, r, Toolkit{Version: "1.17.8", Container: "juju-1", BaseURL: s.URL, Arch: "amd64", GPUs: inv.GPUsOf(gpu.NVIDIA), Now: hosttest.Now,
		fingerprint: fmt.Sprintf("%x", sha1.Sum(keyFile))}
}

func generated(t *testing.T) string {
	data, err := os.ReadFile("testdata/nvidia-ctk.json")
	require.NoError(t, err)
	return string(data)
}

func installed(t *testing.T, h host.Host, version string) {
	hosttest.Put(t, h.Root, "/usr/bin/nvidia-ctk", "")
	hosttest.Put(t, h.Root, "/var/lib/dpkg/status", fmt.Sprintf("Package: %s\nStatus: install ok installed\nVersion: %s\n\n", Package, version))
}

// hook is one run: observe, decide, plan, apply.
func hook(t *testing.T, h host.Host, k Toolkit) (w Desired, ops []string, notes []plan.Note) {
	t.Helper()
	var err error
	k.Seen, err = Observe(h.Root)
	require.NoError(t, err)
	w = k.Desire()
	ops, notes = apply(t, h, w.Resources...)
	return w, ops, notes
}

func apply(t *testing.T, h host.Host, rs ...plan.Resource) (ops []string, notes []plan.Note) {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, rs...)
	require.NoError(t, err)
	for _, s := range p {
		ops = append(ops, s.Op+" ("+s.Why+")")
	}
	notes, err = p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return ops, notes
}

func TestToolkitIsInstalledAndDescribesTheGPUs(t *testing.T) {
	h, r, k := unit(t)
	w, ops, notes := hook(t, h, k)
	require.Empty(t, notes)
	require.True(t, w.Describes)
	require.Equal(t, []string{
		"fetch apt key /etc/apt/keyrings/concourse-ci-nvidia.gpg (missing)",
		"write /etc/apt/sources.list.d/concourse-ci-nvidia-container-toolkit.sources (missing)",
		"update package lists for nvidia-container-toolkit-base (not installed)",
		"install nvidia-container-toolkit-base (not installed)",
		"write /etc/cdi/nvidia.json (missing)",
	}, ops)
	text, err := h.ReadText(Files()[0])
	require.NoError(t, err)
	require.Equal(t, "Types: deb\nURIs: "+k.BaseURL+"/stable/deb/amd64\nSuites: /\nArchitectures: amd64\nSigned-By: /etc/apt/keyrings/concourse-ci-nvidia.gpg", text)
	require.True(t, strings.HasSuffix(r.Ran[1], " nvidia-container-toolkit-base=1.17.8*"), r.Ran[1])

	data, err := h.ReadFile(Path)
	require.NoError(t, err)
	spec, err := cdilib.ParseSpec(data)
	require.NoError(t, err)
	require.Equal(t, "0.6.0", spec.Version, "annotations need it")
	want, err := cdilib.ParseSpec([]byte(generated(t)))
	require.NoError(t, err)
	require.Equal(t, want.Devices, spec.Devices)
	require.Equal(t, want.ContainerEdits, spec.ContainerEdits)

	_, ops, _ = hook(t, h, k)
	require.Empty(t, ops, "a second run plans nothing")

	hosttest.Put(t, h.Root, "/sys/module/nvidia/version", "570.1\n")
	_, ops, _ = hook(t, h, k)
	require.Equal(t, []string{"write /etc/cdi/nvidia.json (the driver or the GPUs are others than those it was made from)"}, ops)

	k.fingerprint = ""
	_, ops, notes = hook(t, h, k)
	require.Equal(t, "replace apt key /etc/apt/keyrings/concourse-ci-nvidia.gpg", strings.SplitN(ops[0], " (", 2)[0], "outside tests the key is NVIDIA's")
	require.ErrorContains(t, notes[0].Err, KeyFingerprint)
	require.Contains(t, ReadAttempt(h.Root).Text(), "NVIDIA GPUs not described: the signing key of ")
}

// D52: what NVIDIA's tools or people made is not replaced, and not removed.
func TestD52ForeignFilesStay(t *testing.T) {
	for name, content := range map[string]string{
		"by hand":      `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0"}]}`,
		"not JSON":     "cdiVersion: 0.5.0\n",
		"empty":        "",
		"others' mark": `{"annotations":{"a":"b"}}`,
	} {
		h, r, k := unit(t)
		hosttest.Put(t, h.Root, Path, content)
		w, ops, _ := hook(t, h, k)
		require.Empty(t, ops, name)
		require.False(t, w.Describes, name)
		require.Empty(t, r.Ran, name)
		ops, _ = apply(t, h, Uninstall("compute-runtime is none")...)
		require.Empty(t, ops, name)
		text, err := h.ReadFile(Path)
		require.NoError(t, err)
		require.Equal(t, content, string(text), name)
	}
}

// Whoever installed the toolkit keeps their version and their source.
func TestInstalledToolkitIsUsed(t *testing.T) {
	h, r, k := unit(t)
	installed(t, h, "1.16.2-1")
	_, ops, _ := hook(t, h, k)
	require.Equal(t, []string{"write /etc/cdi/nvidia.json (missing)"}, ops)
	require.Equal(t, []string{"nvidia-ctk cdi generate --format=json"}, r.Ran)
	ops, _ = apply(t, h, Uninstall("compute-runtime is none")...)
	require.Equal(t, []string{"remove /etc/cdi/nvidia.json (compute-runtime is none)"}, ops, "the package was not the charm's")
}

func TestUninstallRemovesOnlyInstalledParts(t *testing.T) {
	h, r, k := unit(t)
	hosttest.Put(t, h.Root, "/etc/cdi/other.json", "{}")
	hosttest.Put(t, h.Root, "/etc/apt/sources.list.d/nvidia-container-toolkit.list", "deb x")
	hook(t, h, k)
	r.Answer("apt-get remove", "Remv "+Package+" [1.17.8-1]\n")
	ops, notes := apply(t, h, Uninstall("compute-runtime is none")...)
	require.Empty(t, notes)
	require.Equal(t, []string{
		"remove /etc/apt/sources.list.d/concourse-ci-nvidia-container-toolkit.sources (compute-runtime is none)",
		"remove /etc/apt/keyrings/concourse-ci-nvidia.gpg (compute-runtime is none)",
		"remove /etc/cdi/nvidia.json (compute-runtime is none)",
		"remove package nvidia-container-toolkit-base (compute-runtime is none)",
	}, ops)
	require.True(t, h.Exists("/etc/cdi/other.json"))
	require.True(t, h.Exists("/etc/apt/sources.list.d/nvidia-container-toolkit.list"))
	ops, _ = apply(t, h, Uninstall("compute-runtime is none")...)
	require.Empty(t, ops)
}

func TestFailuresNameTheirFixAndAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*hosttest.Runner)
		want string
		soon bool // the next hook tries again
	}{
		"apt": {func(r *hosttest.Runner) {
			r.Fail("apt-get update", 100, "E: The repository 'x InRelease' is not signed.")
		}, "The repository 'x InRelease' is not signed.", false},
		"lock": {func(r *hosttest.Runner) {
			r.Fail("apt-get install", 100, "E: Could not get lock /var/lib/dpkg/lock-frontend.")
		}, "another apt or dpkg is at work", true},
		"no library": {func(r *hosttest.Runner) {
			r.Fail("nvidia-ctk", 1, `time="x" level=error msg="failed to generate CDI spec: failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"`)
		}, "nvidia-ctk finds no libnvidia-ml.so.1 — restart the container after, on the LXD host: lxc config set juju-1 nvidia.runtime=true", true},
		"other":  {func(r *hosttest.Runner) { r.Fail("nvidia-ctk", 1, "boom") }, "nvidia-ctk: boom", true},
		"silent": {func(r *hosttest.Runner) { r.Fail("nvidia-ctk", 3, "") }, "nvidia-ctk ended with 3 and no word", true},
		"hangs": {func(r *hosttest.Runner) {
			r.On("nvidia-ctk", func(c host.Command) (string, error) {
				return "", &host.CommandError{Argv: c.Argv, Code: -1, Timeout: c.Deadline, Err: context.DeadlineExceeded}
			})
		}, "nvidia-ctk gave up after 1m30s: the driver does not answer", true},
		"missing": {func(r *hosttest.Runner) {
			r.On("nvidia-ctk", func(c host.Command) (string, error) {
				return "", &host.CommandError{Argv: c.Argv, Code: -1, Err: errors.New("not found")}
			})
		}, "nvidia-ctk can't be started: not found", true},
		"text":       {func(r *hosttest.Runner) { r.Answer("nvidia-ctk", "cdiVersion: 0.5.0\n") }, "nvidia-ctk wrote no description of GPUs: invalid character", true},
		"other kind": {func(r *hosttest.Runner) { r.Answer("nvidia-ctk", `{"cdiVersion":"0.5.0","kind":"amd.com/gpu"}`) }, `its kind is "amd.com/gpu", want nvidia.com/gpu`, true},
		"no devices": {func(r *hosttest.Runner) { r.Answer("nvidia-ctk", `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu"}`) }, "it has no devices", true},
		"version":    {func(r *hosttest.Runner) { r.Answer("nvidia-ctk", `{"cdiVersion":"2.0.0","kind":"nvidia.com/gpu"}`) }, `its cdiVersion is "2.0.0"`, true},
	} {
		h, r, k := unit(t)
		c.fail(r)
		_, _, notes := hook(t, h, k)
		require.NotEmpty(t, notes, name)
		text := ReadAttempt(h.Root).Text()
		require.Contains(t, text, "NVIDIA GPUs not described: ", name)
		require.Contains(t, text, c.want, name)
		require.Contains(t, text, "(attempt 1)", name)
		require.False(t, h.Exists(Path), name)

		r.Answer("apt-get update", "").On("apt-get install", func(host.Command) (string, error) { installed(t, h, "1.17.8-1"); return "", nil })
		r.Answer("nvidia-ctk", generated(t))
		if !c.soon {
			w, ops, _ := hook(t, h, k)
			require.Empty(t, ops, name)
			require.Equal(t, text, w.Note, name)
			k.Now = k.Now.Add(30 * time.Minute)
		}
		_, _, notes = hook(t, h, k)
		require.Empty(t, notes, name)
		require.True(t, h.Exists(Path), name)
		require.Nil(t, ReadAttempt(h.Root), name)
	}
}

func TestValuesOfAURLAreChecked(t *testing.T) {
	for _, c := range []struct {
		change func(*Toolkit)
		want   string
	}{
		{func(k *Toolkit) { k.Version = "newest" }, `nvidia-container-toolkit: "newest" is not auto or a version such as 1.17.8`},
		{func(k *Toolkit) { k.Arch = "s390x" }, "NVIDIA has no packages for s390x, only for amd64 and arm64"},
		{func(k *Toolkit) { k.BaseURL = "file:///x" }, "the repository's address is not a URL like " + BaseURL},
		{func(k *Toolkit) { k.BaseURL = "http://u:p@x" }, "the repository's address is not a URL like " + BaseURL},
	} {
		h, r, k := unit(t)
		c.change(&k)
		w, ops, _ := hook(t, h, k)
		require.Equal(t, "NVIDIA GPUs not described: "+c.want, w.Note)
		require.Empty(t, ops)
		require.Empty(t, r.Ran)
	}
}

func TestMissingLibraryOutsideLXDHasAFix(t *testing.T) {
	h, r, k := unit(t)
	k.Container = ""
	r.Fail("nvidia-ctk", 1, "failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND")
	hook(t, h, k)
	require.Equal(t, "NVIDIA GPUs not described: nvidia-ctk finds no libnvidia-ml.so.1: install the driver's libnvidia-compute (attempt 1)", ReadAttempt(h.Root).Text())
}

// A description that appears while nvidia-ctk runs is another program's.
func TestD52DescriptionOfAnotherWriterStays(t *testing.T) {
	h, r, k := unit(t)
	r.On("nvidia-ctk", func(host.Command) (string, error) {
		hosttest.Put(t, h.Root, Path, "{}")
		return generated(t), nil
	})
	_, _, notes := hook(t, h, k)
	require.Len(t, notes, 1)
	text, err := h.ReadText(Path)
	require.NoError(t, err)
	require.Equal(t, "{}", text)
}

func FuzzMarked(f *testing.F) {
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0"}]}`))
	f.Add([]byte(`{"cdiVersion":"1.0.0","kind":"nvidia.com/gpu","devices":[{"name":"0"}],"annotations":{"a":"b"},"x":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := marked(data, "from")
		if err != nil {
			require.True(t, isSpecError(err))
			return
		}
		r := host.Root(t.TempDir())
		hosttest.Put(t, r, Path, string(out))
		from, err := readSpec(r)
		require.NoError(t, err)
		require.Equal(t, "from", from)
		again, err := marked(out, "from")
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
	})
}

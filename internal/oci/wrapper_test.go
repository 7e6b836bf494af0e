package oci

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyTasksGetGPUsByDefault(t *testing.T) {
	for _, kind := range []string{"get", "check"} {
		b := newTestbed(t)
		b.bundle(t, kind)
		before := b.text(t)
		require.NoError(t, b.create())
		require.Equal(t, before, b.text(t))
		b.configure(t, func(c *Config) { c.Containers = All })
		require.NoError(t, b.create())
		require.Contains(t, b.text(t), "renderD128")
	}
}

func TestNoGPUSelectedIsNotAnError(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	before := b.text(t)
	b.configure(t, func(c *Config) { c.GPUs, c.Specs = nil, []string{"/nowhere/amd.json"} })
	require.NoError(t, b.create())
	require.Equal(t, before, b.text(t))
}

func TestRunIsTreatedAsCreate(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	require.NoError(t, b.call("run", "c1", "--bundle="+b.path("bundle")))
	require.Contains(t, b.text(t), "renderD128")
}

// AMD's runtime writes `null` to /config.json here.
func TestBundleDefaultsToTheWorkingDirectory(t *testing.T) {
	b := newTestbed(t)
	t.Chdir(b.bundle(t, "task"))
	b.refuseMknod()
	require.NoError(t, b.call("create", "c1"))
	require.Contains(t, b.text(t), "renderD128")
	marker, err := os.ReadFile(b.path("state/c1"))
	require.NoError(t, err)
	require.Contains(t, string(marker), b.path("bundle"), "absolute, for exec from elsewhere")
}

// D37: the predecessor changed the host's nodes at every call.
func TestOtherCallsReachRuncUnchanged(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	before := b.text(t)
	for _, line := range []string{"delete create x", "--log create state c1", "kill c1", "--version",
		"start c1", "delete --force c1"} {
		require.NoError(t, b.call(strings.Fields(line)...))
		require.Equal(t, append([]string{b.path("runc")}, strings.Fields(line)...), b.argv)
	}
	require.Equal(t, before, b.text(t))
	require.NoDirExists(t, b.path("state"))
	require.NoDirExists(t, b.path("nodes"))
	require.NoFileExists(t, "create")
}

func TestRuntimeOfTheEnvironmentNeedsNoConfigForOtherCalls(t *testing.T) {
	b := newTestbed(t)
	require.NoError(t, os.Remove(b.path("wrapper.json")))
	b.runtime = b.path("runc")
	require.NoError(t, b.call("state", "c1"))
	require.ErrorContains(t, b.call("create", "c1"), "cannot read "+b.path("wrapper.json"))
	b.runtime = ""
	require.ErrorContains(t, b.call("state", "c1"), EnvRuntime)
}

func TestRefusedCreateCanStillBeDeleted(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	b.put(t, "wrapper.json", `{"runtime":"`+b.path("runc")+`","unheard":1}`)
	require.ErrorContains(t, b.create(), `"unheard": this version of the wrapper does not support it`)
	require.NoError(t, b.call("delete", "--force", "c1"))
}

// D52: a lookup that finds the wrapper again is an endless loop.
func TestWrapperNamedAsItsOwnRuntimeIsRefused(t *testing.T) {
	b := newTestbed(t)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, b.path("loop")))
	b.runtime = b.path("loop")
	require.ErrorContains(t, b.call("state", "c1"), "it is this wrapper itself")
	b.runtime = "runc"
	require.ErrorContains(t, b.call("state", "c1"), "is not an absolute path")
	b.runtime = b.path("gone")
	require.ErrorContains(t, b.call("state", "c1"), "no such file")
}

// D47: a failure on the way meant a task without its GPU, and no word of it.
func TestMissingOrBrokenSpecIsRefused(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	b.put(t, "amd.json", "{")
	require.ErrorContains(t, b.create(), "cannot decode CDI spec")
	require.NoError(t, os.Remove(b.path("amd.json")))
	require.ErrorContains(t, b.create(), "amd.json is missing")
	b.bundle(t, "check")
	require.NoError(t, b.create(), "a check needs no GPU")
}

func TestRefusalIsOnStderrAndInTheLogOfTheCall(t *testing.T) {
	b := newTestbed(t)
	b.bundle(t, "task")
	delete(b.nodes, "/dev/kfd")
	for format, want := range map[string]string{
		"json": `{"level":"error","msg":"runc-amd-wrapper: cannot give the task /dev/kfd: /dev/kfd is missing `,
		"text": `time="2026-01-02T03:04:05Z" level=error msg="runc-amd-wrapper: cannot give the task /dev/kfd: /dev/kfd is missing `,
	} {
		log := b.path("log." + format)
		b.put(t, "log."+format, "earlier line\n")
		var stdout, stderr bytes.Buffer
		code := b.run([]string{"runc", "--root", "/run/containerd/runc/concourse", "--log", log,
			"--log-format", format, "create", "-b", b.path("bundle"), "c1"}, &stdout, &stderr)
		require.Equal(t, 1, code)
		require.Empty(t, stdout.String())
		require.Contains(t, stderr.String(), "runc-amd-wrapper: cannot give the task /dev/kfd: /dev/kfd is missing")
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(data), "earlier line\n"+want), string(data))
		if format == "json" {
			require.True(t, strings.HasSuffix(string(data), `"time":"2026-01-02T03:04:05Z"}`+"\n"), string(data))
		}
	}
}

func TestInfoNamesTheConfig(t *testing.T) {
	b := newTestbed(t)
	var stdout, stderr bytes.Buffer
	require.Zero(t, b.run([]string{"runc-amd-wrapper", "wrapper-info"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "config "+b.path("wrapper.json"))
	require.NotContains(t, stdout.String(), "leases")
	require.Empty(t, stderr.String())
	b.configure(t, func(c *Config) { c.Leases = &Leases{} })
	require.Zero(t, b.run([]string{"runc-amd-wrapper", "wrapper-info"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "leases in /run/concourse-ci-machine/gpu-leases\n")
}

// On the hot path of every container, so nothing more may come in.
func TestWrapperNeedsTwoSmallLibraries(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{else}}std {{.ImportPath}}{{end}}",
		"github.com/fourdollars/concourse-ci-machine/src/runc-amd-wrapper").Output()
	require.NoError(t, err)
	heavy := []string{"encoding/json", "net", "os/exec", "regexp", "text/template", "log", "crypto/tls"}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, std := strings.CutPrefix(strings.TrimSpace(line), "std ")
		if std {
			require.NotContains(t, heavy, path)
			continue
		}
		found[path] = true
	}
	require.Equal(t, map[string]bool{
		"github.com/fourdollars/concourse-ci-machine/src/runc-amd-wrapper": true, "github.com/fourdollars/concourse-ci-machine/internal/oci": true,
		"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec": true, "github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits": true,
		"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline": true, "github.com/fourdollars/concourse-ci-machine/internal/pool/admission": true,
		"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson": true, "github.com/fourdollars/concourse-ci-machine/internal/base/pci": true,
		"github.com/fourdollars/concourse-ci-machine/internal/base/units": true, "github.com/fourdollars/concourse-ci-machine/internal/oci/visible": true,
		"github.com/fourdollars/concourse-ci-machine/internal/base/version": true, "github.com/fourdollars/concourse-ci-machine/internal/oci/deadmount": true,
		"github.com/fourdollars/concourse-ci-machine/internal/oci/nested": true,
		"github.com/fourdollars/concourse-ci-machine/internal/pool/lease": true, "github.com/fourdollars/concourse-ci-machine/internal/base/wellknown": true, "github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks": true,
		"github.com/fourdollars/concourse-ci-machine/internal/base/procfile": true, "github.com/fourdollars/concourse-ci-machine/internal/base/folder": true,
		"golang.org/x/sys/unix": true, "github.com/moby/sys/mountinfo": true,
	}, found)
}

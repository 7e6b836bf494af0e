package amd

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const rigKernel = "6.8.0-31-generic"

// rig is a machine with an apt and a udev that follow a script.
type rig struct {
	t *testing.T
	h host.Host
	r *hosttest.Runner
	f DriverFacts
	w Wanted
	d Decision
	e Environment
}

func newRig(t *testing.T) *rig {
	r := hosttest.NewRunner(t)
	g := &rig{t: t, r: r, h: host.Host{Root: hosttest.Root(t), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}}
	release, err := FindRelease("6.3.2", "noble", "")
	require.NoError(t, err)
	g.f = DriverFacts{Kind: Metal, Kernel: rigKernel, BootID: "b1", GPUs: []gpu.GPU{{Slot: gpu.Slot{PCI: "0000:03:00.0"}}}}
	g.f.Series, g.f.Arch = "noble", "amd64"
	g.w = Wanted{BaseURL: mirror(t), Usecases: []string{UsecaseSMI}}
	g.d = Decision{State: StateNone, Install: true, Driver: true, Tools: true, Usecases: []string{"hip"}, Release: release}
	g.e = Environment{Key: fmt.Sprintf("%x", sha1.Sum(keyFile)), Now: hosttest.Now}
	hosttest.Put(t, g.h.Root, initramfsTool, "")
	hosttest.Put(t, g.h.Root, "/opt/rocm-"+release.ROCm+"/bin/rocm-smi", "")
	r.Answer("apt-get update", "").Answer("udevadm", "").Answer("update-initramfs", "").Answer("/opt/rocm-"+release.ROCm+"/bin/rocm-smi", "GPU[0]\n")
	r.On("apt-get install", func(c host.Command) (string, error) {
		name, version, _ := strings.Cut(c.Argv[len(c.Argv)-1], "=")
		g.dpkg(name, version)
		return "", nil
	}).On("modprobe amdgpu", func(host.Command) (string, error) {
		hosttest.Put(t, g.h.Root, moduleDir+"/version", release.DKMSVersion+"\n")
		hosttest.Put(t, g.h.Root, "/dev/kfd", "")
		hosttest.Put(t, g.h.Root, "/dev/dri/renderD128", "")
		return "", nil
	})
	return g
}

// dpkg notes that a package is installed.
func (g *rig) dpkg(name, version string) {
	status, _ := g.h.ReadFile("/var/lib/dpkg/status")
	if version == "" {
		version = "1"
	}
	hosttest.Put(g.t, g.h.Root, "/var/lib/dpkg/status",
		string(status)+fmt.Sprintf("Package: %s\nStatus: install ok installed\nVersion: %s\n\n", name, version))
}

// plan is what a hook would do now.
func (g *rig) plan() (plan.Plan, InstallWant) {
	g.t.Helper()
	key, now := g.e.Key, g.e.Now
	g.e = Environment{Key: key, Now: now, Seen: ObserveInstall(g.h.Root)}
	want, err := Install(g.d, g.f, g.w, g.e)
	require.NoError(g.t, err)
	return g.diff(want.Resources), want
}

func (g *rig) diff(all []plan.Resource) plan.Plan {
	g.t.Helper()
	p, err := plan.Diff(context.Background(), g.h, all...)
	require.NoError(g.t, err)
	return p
}

func (g *rig) apply(p plan.Plan) []plan.Note {
	g.t.Helper()
	notes, err := p.Apply(context.Background(), nil)
	require.NoError(g.t, err)
	return notes
}

func printed(t *testing.T, p plan.Plan) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.Print(&b))
	return b.String()
}

// The whole of what is installed on its own machine, and what is written.
func TestInstallOnMetal(t *testing.T) {
	g := newRig(t)
	g.w.ModuleParams = "noretry=0 vm_fragment_size=9"
	p, want := g.plan()
	require.Empty(t, want.Note)
	require.Empty(t, want.Remarks)
	text := printed(t, p)
	require.Empty(t, g.apply(p))
	for _, path := range []string{"/etc/apt/sources.list.d/concourse-ci-amdgpu.sources", "/etc/apt/sources.list.d/concourse-ci-rocm.sources",
		pinFile, paramsFile, loadFile, UdevRules} {
		data, err := g.h.ReadFile(path)
		require.NoError(t, err, path)
		text += "== " + path + "\n" + string(data)
	}
	text += "== commands\n" + strings.Join(g.r.Ran, "\n") + "\n"
	hosttest.Golden(t, "testdata/install.golden", strings.ReplaceAll(text, g.w.BaseURL, "https://mirror"))

	p, _ = g.plan()
	require.Empty(t, p, "a second run plans nothing")
}

// A run that dies after any of its steps is made good by the next.
func TestInstallKilledAnywhereConverges(t *testing.T) {
	whole := newRig(t)
	whole.w.ModuleParams = "noretry=0"
	all, _ := whole.plan()
	require.Greater(t, len(all), 12)
	for dies := range all {
		g := newRig(t)
		g.w.ModuleParams = "noretry=0"
		p, _ := g.plan()
		require.Len(t, p, len(all))
		g.apply(p[:dies])
		p, _ = g.plan()
		g.apply(p)
		p, want := g.plan()
		require.Empty(t, p, "died after %d steps", dies)
		require.Empty(t, want.Note)
		require.Contains(t, strings.Join(g.r.Ran, "\n"), "udevadm trigger")
		require.Contains(t, strings.Join(g.r.Ran, "\n"), "update-initramfs -u -k "+rigKernel)
	}
}

// Removing a file that udev or the initial RAM disk read informs them, also if the run in
// which it went died in between.
func TestRemovalAppliesTheFilesAgain(t *testing.T) {
	g := newRig(t)
	g.w.ModuleParams = "noretry=0"
	p, _ := g.plan()
	g.apply(p)
	g.r.Answer("apt-get remove", "")
	for run := 0; ; run++ { // each dies after its first step
		require.Less(t, run, 40)
		gone := g.diff(Uninstall(g.f, g.e, "compute-runtime is none"))
		if len(gone) == 0 {
			break
		}
		g.apply(gone[:1])
	}
	for _, path := range []string{UdevRules, paramsFile, loadFile, pinFile, DriverSourceFile, rocmSourceFile} {
		require.False(t, g.h.Exists(path), path)
	}
	require.Equal(t, 2, strings.Count(strings.Join(g.r.Ran, "\n"), "update-initramfs"))
	require.Equal(t, 2, strings.Count(strings.Join(g.r.Ran, "\n"), "udevadm control --reload-rules"))
}

// In a container the kernel and the nodes are the host's, whatever was decided.
func TestContainerGetsUserSpaceOnly(t *testing.T) {
	for _, where := range []MachineKind{LXD, OtherContainer} {
		g := newRig(t)
		g.f.Kind, g.w.ModuleParams = where, "noretry=0"
		p, want := g.plan()
		require.Contains(t, want.Remarks[0].Text, "amdgpu-module-params does nothing")
		text := printed(t, p)
		require.Contains(t, text, "install rocm-smi-lib")
		for _, not := range []string{"dkms", "linux-", "udev", "modprobe", "kernel module", "modules-load"} {
			require.NotContains(t, text, not)
		}
		g.w.ModuleParams = ""
		_, want = g.plan()
		require.Empty(t, want.Remarks, "nothing was asked for")
	}
}

// B16: a failure is kept with its reason; it is tried again after a pause, or at once if an
// option changed, and nothing of it remains when it worked.
func TestFailedInstallationPausesAndIsRetried(t *testing.T) {
	g := newRig(t)
	g.r.Fail("apt-get install", 100, "E: Unable to locate package linux-headers-"+rigKernel)
	p, _ := g.plan()
	require.NotEmpty(t, g.apply(p))
	_, want := g.plan()
	require.Equal(t, "ROCm "+g.d.Release.ROCm+" not ready: Unable to locate package linux-headers-"+rigKernel+" (attempt 1)", want.Note)
	p, _ = g.plan()
	require.NotContains(t, printed(t, p), "apt")
	g.d.Usecases = nil
	_, want = g.plan()
	require.Empty(t, want.Note, "another wish")
	g.d.Usecases = []string{"hip"}
	g.e.Now = g.e.Now.Add(31 * time.Minute)
	g.r.On("apt-get install", func(c host.Command) (string, error) {
		name, version, _ := strings.Cut(c.Argv[len(c.Argv)-1], "=")
		g.dpkg(name, version)
		return "", nil
	})
	p, _ = g.plan()
	require.Empty(t, g.apply(p))
	p, want = g.plan()
	require.Empty(t, p)
	require.Empty(t, want.Note)
}

// Whatever keeps the plan from being made is said, and nothing is begun.
func TestFailedPartIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *rig)
		want   string
	}{
		"somebody else's source": {func(g *rig) {
			g.f.Sources = []AptEntry{{File: "/etc/apt/sources.list.d/rocm.list", Line: 3, URI: g.w.BaseURL + g.d.Release.ROCmRepo() + "/"}}
		}, "with another key; on the unit run: sudo sed -i '3d' /etc/apt/sources.list.d/rocm.list"},
		"a series without the driver": {func(g *rig) { g.f.Series = "focal" }, "no version of amdgpu-dkms is known for focal"},
		"an unknown use case":         {func(g *rig) { g.d.Usecases = []string{"games"} }, `use case "games" is not one of hip, `},
	} {
		g := newRig(t)
		c.change(g)
		p, want := g.plan()
		require.Contains(t, want.Note, c.want, name)
		require.NotContains(t, printed(t, p), "apt", name)
	}
	g := newRig(t)
	g.w.BaseURL = "nowhere"
	_, err := Install(g.d, g.f, g.w, g.e)
	require.ErrorContains(t, err, "rocm-base-url is not a URL like")
}

// The headers' package is asked for once, Ubuntu's other modules only if no amdgpu of
// theirs is there, and a kernel without such a package is none worse.
func TestPackagesOfTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		headers bool
		module  string
		want    []string
	}{
		"a fresh machine":  {false, "", []string{"linux-headers-" + rigKernel, "linux-modules-extra-" + rigKernel}},
		"with its modules": {false, "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst", []string{"linux-headers-" + rigKernel}},
		"with headers":     {true, "", []string{"linux-modules-extra-" + rigKernel}},
		"with a driver":    {true, "updates/dkms/amdgpu.ko", nil},
	} {
		g := newRig(t)
		if c.module != "" {
			hosttest.Put(t, g.h.Root, "/lib/modules/"+rigKernel+"/"+c.module, "")
		}
		var installed []string
		g.r.On("apt-get install", func(c host.Command) (string, error) {
			name := c.Argv[len(c.Argv)-1]
			installed = append(installed, name)
			if strings.HasPrefix(name, "linux-modules-extra") {
				return "", &host.CommandError{Argv: c.Argv, Code: 100, Stderr: "E: Unable to locate package " + name, Err: errors.New("exit")}
			}
			return "", nil
		})
		require.Empty(t, g.apply(g.diff([]plan.Resource{kernelPackages{Kernel: rigKernel, Headers: c.headers}})), name)
		require.Equal(t, c.want, installed, name)
	}
}

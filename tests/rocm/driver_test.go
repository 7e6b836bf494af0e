//go:build e2e

package rocm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// chrooted runs commands in a unit's Debian. Those that reach for the kernel of
// this machine are noted and not run: the module and the nodes are made up.
type chrooted struct {
	u   *unit
	ran []string
}

func (c *chrooted) Run(ctx context.Context, cmd host.Command) ([]byte, error) {
	if name := cmd.Argv[0]; name == "modprobe" || name == "udevadm" || name == "depmod" || name == "update-initramfs" {
		c.ran = append(c.ran, cmd.String())
		return nil, nil
	}
	cmd.Argv = append([]string{"chroot", string(c.u.Root)}, cmd.Argv...)
	cmd.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	return host.Exec{}.Run(ctx, cmd)
}

// metal is a machine with four MI210 and a site with AMD's repositories of a release, with
// a plan that is made and applied by the test itself.
type metal struct {
	*unit
	*site
	h        host.Host
	release  amd.Release
	commands *chrooted
	facts    amd.DriverFacts
	wanted   amd.Wanted
	decided  amd.Decision
	now      time.Time
}

func newMetal(t *testing.T) *metal {
	t.Helper()
	need(t)
	release, err := amd.FindRelease("", "noble", kernel)
	require.NoError(t, err)
	s := newSite(t)
	s.put("/rocm/rocm.gpg.key", keys.good.public)
	s.publish("/ubuntu", keys.good, time.Time{}, "linux-headers-"+kernel)
	s.publish(release.DriverRepo(), keys.good, time.Time{}, "amdgpu-dkms", "amdgpu-dkms-firmware", "amdgpu-install")
	s.publish(release.ROCmRepo(), keys.good, time.Time{}, "rocm-core", "rocm-smi-lib", "amd-smi-lib")
	u := newUnit(t, "mi210x4", nil)
	u.put("/etc/apt/keyrings/ubuntu.asc", string(keys.good.public))
	u.put("/etc/apt/sources.list", "deb [signed-by=/etc/apt/keyrings/ubuntu.asc] "+s.url()+"/ubuntu noble main\n")
	c := &chrooted{u: u}
	// The root by its name inside itself, unless this machine's /proc covers the fixture's.
	root := host.Root(filepath.Join(string(u.Root), string(u.Root)))
	return &metal{unit: u, site: s, release: release, commands: c, h: host.Host{Root: root, Runner: c, Clock: hosttest.Clock{T: hosttest.Now}},
		now: hosttest.Now,
		facts: amd.DriverFacts{Machine: amd.Machine{Series: "noble", Arch: "amd64"}, Kind: amd.Metal, Kernel: kernel, BootID: "b1",
			GPUs: []gpu.GPU{{Slot: gpu.Slot{PCI: "0000:03:00.0"}, Driver: "amdgpu"}}},
		wanted:  amd.Wanted{BaseURL: s.url(), ModuleParams: "noretry=0"},
		decided: amd.Decision{Install: true, Driver: true, Tools: true, Release: release}}
}

// run plans and applies, as a hook does; half an hour passes before each.
func (m *metal) run() (text string, want amd.InstallWant) {
	t := m.unit.t
	t.Helper()
	m.now = m.now.Add(31 * time.Minute)
	m.h.Clock = hosttest.Clock{T: m.now}
	m.facts.Headers.Present = m.h.Exists("/lib/modules/" + kernel + "/build")
	want, err := amd.Install(m.decided, m.facts, m.wanted, amd.Environment{Seen: amd.ObserveInstall(m.h.Root), Now: m.now, Key: keys.good.fingerprint})
	require.NoError(t, err)
	return m.apply(want.Resources), want
}

func (m *metal) apply(all []plan.Resource) string {
	t := m.unit.t
	t.Helper()
	due, err := plan.Diff(context.Background(), m.h, all...)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, due.Print(&b))
	notes, err := due.Apply(context.Background(), nil)
	require.NoError(t, err)
	for _, n := range notes {
		if !errors.Is(n.Err, resource.ErrSkipped) {
			t.Logf("%s: %v", n.Step.Op, n.Err)
		}
	}
	if len(due) == 0 {
		return ""
	}
	return b.String()
}

// failed is the text of a failed installation.
func (m *metal) failed() string {
	if a := amd.ObserveInstall(m.h.Root).Attempt; a != nil {
		return a.Text()
	}
	return ""
}

func (m *metal) healed() {
	t := m.unit.t
	t.Helper()
	m.run()
	require.Empty(t, m.failed())
	require.Equal(t, "ii "+m.release.Package("noble"), m.dpkg("amdgpu-dkms"))
	text, _ := m.run()
	require.Empty(t, text)
}

// The whole stack: headers, driver, tools, module and rules; a second run finds
// nothing to do, and going back leaves what was there before.
func TestDriverStackComesAndGoes(t *testing.T) {
	t.Parallel()
	m := newMetal(t)
	before := tree(t, m.h.Root)
	text, want := m.run()
	require.Empty(t, m.failed(), text)
	require.Empty(t, want.Remarks)
	for _, name := range []string{"amdgpu-dkms", "amdgpu-dkms-firmware", "rocm-smi-lib", "amd-smi-lib", "rocm-core", "linux-headers-" + kernel} {
		require.True(t, strings.HasPrefix(m.dpkg(name), "ii "), name)
	}
	require.Empty(t, m.dpkg("amdgpu-install"))
	require.True(t, m.h.Exists("/lib/modules/"+kernel+"/updates/dkms/amdgpu.ko"))
	require.Contains(t, strings.Join(m.commands.ran, "\n"), "udevadm trigger")
	m.commands.ran = nil
	text, _ = m.run()
	require.Empty(t, text)
	require.Empty(t, m.commands.ran)

	m.apply(amd.Uninstall(m.facts, amd.Environment{Seen: amd.ObserveInstall(m.h.Root)}, "compute-runtime is none"))
	for _, name := range []string{"amdgpu-dkms", "rocm-smi-lib", "amd-smi-lib"} {
		require.NotContains(t, m.dpkg(name), "ii ", name)
	}
	m.must("apt-get", "purge", "--yes", "--autoremove")
	require.Equal(t, before, tree(t, m.h.Root), "the key is the toolkit's to take away, too")
}

// tree is what lies in the folders that Install writes to.
func tree(t *testing.T, r host.Root) (files []string) {
	for _, dir := range []string{"/etc/apt/sources.list.d", "/etc/apt/preferences.d", "/etc/modprobe.d", "/etc/modules-load.d", "/etc/udev/rules.d"} {
		found, err := r.Glob(dir + "/*")
		require.NoError(t, err)
		files = append(files, found...)
	}
	return files
}

// What breaks an installation of the driver is named, and the next try heals it.
func TestFailedDriverShowsWhyAndHeals(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(m *metal)
		want   string
		mends  func(m *metal)
	}{
		"no headers in the archive": {
			func(m *metal) { m.publish("/ubuntu", keys.good, time.Time{}) },
			"Unable to locate package linux-headers-" + kernel,
			func(m *metal) { m.publish("/ubuntu", keys.good, time.Time{}, "linux-headers-"+kernel) },
		},
		"another version in the repository": {
			func(m *metal) {
				m.publish(m.release.DriverRepo(), keys.good, time.Time{}, "amdgpu-dkms 1:6.8.5.60200-2009582.24.04")
			},
			"was not found",
			func(m *metal) {
				m.publish(m.release.DriverRepo(), keys.good, time.Time{}, "amdgpu-dkms", "amdgpu-dkms-firmware")
			},
		},
		"an older driver on hold": {
			func(m *metal) {
				m.put("/lib/modules/"+kernel+"/build", "headers")
				m.put("/srv/old.deb", string(stock["amdgpu-dkms 1:6.8.5.60200-2009582.24.04"].data))
				m.must("dpkg", "--install", "/srv/old.deb")
				m.must("apt-mark", "hold", "amdgpu-dkms")
			},
			"it is on hold; on the unit run: sudo apt-mark unhold amdgpu-dkms",
			func(m *metal) { m.must("apt-mark", "unhold", "amdgpu-dkms") },
		},
		"half-configured": {
			func(m *metal) { m.unit.put(broken("amdgpu-dkms"), "") },
			"post-installation script subprocess returned error exit status 1",
			func(m *metal) { m.remove(broken("amdgpu-dkms")) },
		},
		"rocm-smi fails": {
			func(m *metal) {
				m.put("/opt/rocm-"+m.release.ROCm+"/bin/rocm-smi", "")
				m.unit.put("/srv/hang", "")
			},
			"rocm-smi did not answer in 20s and was abandoned; the GPU or its driver hangs",
			func(m *metal) { m.remove("/srv/hang") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMetal(t)
			m.site.t = t
			c.breaks(m)
			if name == "rocm-smi fails" { // the running driver is the one that is installed
				require.NoError(t, m.h.WriteFile("/sys/module/amdgpu/version", []byte(m.release.DKMSVersion+"\n"), 0o644))
			}
			m.run()
			require.Contains(t, m.failed(), c.want)
			c.mends(m)
			m.healed()
		})
	}
}

// put is for the unit's files; the site's are published.
func (m *metal) put(path, text string) { m.unit.put(path, text) }

// An operator's amdgpu-install has its own sources: the charm's beside them would leave apt
// without any. It is named with its way out instead.
func TestSourcesOfAmdgpuInstallAreNoLongerBroken(t *testing.T) {
	t.Parallel()
	m := newMetal(t)
	list := "/etc/apt/sources.list.d/amdgpu.list"
	m.put("/srv/i.deb", string(stock["amdgpu-install"].data))
	m.must("dpkg", "--install", "/srv/i.deb")
	uri := m.url() + m.release.DriverRepo()
	m.put(list, "deb [trusted=yes] "+uri+" noble main\n")
	m.facts.Sources = []amd.AptEntry{{File: list, Line: 1, URI: uri}}
	_, want := m.run()
	require.Contains(t, want.Note, list+":1 names "+uri+" already, with another key; on the unit run: sudo sed -i '1d' "+list)
	m.must("apt-get", "update", "--error-on=any")
	m.must("sed", "-i", "1d", list)
	m.facts.Sources = nil
	m.healed()
}

// reset-rocm leaves a machine from which the next hook begins again, also if an
// installation is stuck.
func TestResetTakesAllOfItAway(t *testing.T) {
	t.Parallel()
	m := newMetal(t)
	m.unit.put(broken("amdgpu-dkms"), "")
	m.run()
	require.NotEmpty(t, m.failed())
	require.Equal(t, "iF "+m.release.Package("noble"), m.dpkg("amdgpu-dkms"))
	m.remove(broken("amdgpu-dkms"))
	for _, name := range []string{"amdgpu-dkms", "amdgpu-dkms-firmware"} {
		st, err := resource.ReadPackage(m.h.Root, name)
		require.NoError(t, err)
		m.facts.Packages = append(m.facts.Packages, amd.Installed{Name: name, Version: st.Version, Status: st.Status})
	}
	m.facts.Sources = []amd.AptEntry{{File: amd.DriverSourceFile, Line: 2, URI: m.url() + m.release.DriverRepo()}}
	require.NotEmpty(t, amd.Leftovers(m.facts))
	text := m.apply(amd.ResetPlan(m.facts))
	require.Contains(t, text, "purge amdgpu-dkms, amdgpu-dkms-firmware")
	require.Empty(t, m.dpkg("amdgpu-dkms"))
	require.False(t, m.h.Exists(amd.DriverSourceFile))
	require.Empty(t, m.apply(amd.ResetPlan(m.facts)))
	m.healed()
}

// The rules are read by the real udev, and a broken file is one that this test
// would see.
func TestUdevAcceptsTheRules(t *testing.T) {
	t.Parallel()
	m := newMetal(t)
	m.run()
	check := func() string {
		if strings.Contains(m.must("udevadm", "--help"), "verify") {
			out, err := m.unit.run("udevadm", "verify", amd.UdevRules)
			if err == nil {
				return ""
			}
			return out
		}
		// Before version 254 there is no verify; a test run reads all rules aloud.
		var said []string
		out, err := m.unit.run("udevadm", "test", "/sys/class/mem/null")
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, amd.UdevRules+":") {
				said = append(said, line)
			}
		}
		require.Contains(t, out, amd.UdevRules, "%v", err)
		return strings.Join(said, "")
	}
	require.NoError(t, os.MkdirAll(m.Root.Path("/sys/class/mem/null"), 0o755))
	require.NoError(t, os.MkdirAll(m.Root.Path("/sys/devices"), 0o755))
	require.Empty(t, check())
	good, err := m.h.ReadFile(amd.UdevRules)
	require.NoError(t, err)
	m.put(amd.UdevRules, strings.Replace(string(good), `MODE="0660"`, `MOOD="0660"`, 1))
	require.Contains(t, check(), "MOOD")
}

// The built dispatch does the same as one of its hooks: the driver that the
// operator asked for in place of the kernel's own. What reaches for the kernel
// is answered and does nothing.
func TestDispatchInstallsTheDriver(t *testing.T) {
	t.Parallel()
	m := newMetal(t)
	for _, name := range []string{"modprobe", "udevadm", "depmod", "update-initramfs"} {
		tool := filepath.Join(m.Dir, "tools", name)
		require.NoError(t, os.RemoveAll(tool)) // otherwise a write follows a link
		require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755))
	}
	m.site.publish(repository, keys.good, time.Time{}, toolkit)
	for name, value := range map[string]any{"compute-runtime": "rocm", "rocm-base-url": m.url(), "rocm-usecases": "smi",
		"install-driver": "replace"} {
		require.NoError(t, m.Model.SetConfig(name, value))
	}
	m.publish(m.release.DriverRepo(), keys.other, time.Time{}, "amdgpu-dkms", "amdgpu-dkms-firmware")
	m.hook("install")
	require.Contains(t, m.status(), "is not signed")
	require.Empty(t, m.dpkg("amdgpu-dkms"))

	m.publish(m.release.DriverRepo(), keys.good, time.Time{}, "amdgpu-dkms", "amdgpu-dkms-firmware")
	m.unit.later("/var/lib/concourse-ci-machine/rocm-attempt.json")
	m.hook("update-status")
	require.Equal(t, "ii "+m.release.Package("noble"), m.dpkg("amdgpu-dkms"), m.status())
	require.True(t, strings.HasPrefix(m.dpkg("rocm-smi-lib"), "ii "))
	require.NotContains(t, m.hook("update-status").Plan(), "amdgpu-dkms")
	require.Equal(t, "active: Worker ready (v8.2.5) (GPU: 4x AMD)", m.status())
}

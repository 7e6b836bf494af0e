package amd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// B6: what an earlier installation left is named with its fix.
func TestLeftoversAreNamedWithTheirFix(t *testing.T) {
	driver := Installed{Name: driverPackage, Version: "1:6.10.5.60302-2109964.24.04", Status: "installed"}
	built := ModuleFile{Path: "/lib/modules/" + rigKernel + "/updates/dkms/amdgpu.ko", DKMS: true}
	const list, radeon = "/etc/apt/sources.list.d/rocm.list", "https://repo.radeon.com"
	for name, c := range map[string]struct {
		f         DriverFacts
		what, fix string // both "" if there is nothing
	}{
		"nothing": {DriverFacts{Packages: []Installed{driver}, Module: Module{Files: []ModuleFile{built}},
			Sources: []AptEntry{{File: DriverSourceFile, Line: 2, URI: radeon + "/amdgpu/6.3.2/ubuntu"}, {File: rocmSourceFile, Line: 2, URI: radeon + "/rocm/apt/6.3.2"}},
			Pins:    []Pin{{File: pinFile, Line: 1}}}, "", ""},
		"a half": {DriverFacts{Packages: []Installed{{Name: "rocm-core", Version: "6.3.2", Status: "half-configured"}}},
			"rocm-core 6.3.2 is half-configured: an earlier installation did not finish", "sudo dpkg --configure -a && sudo apt-get install --fix-broken"},
		"a half that this kernel can't build": {with(fresh(), halfOn70), "it can't be built for kernel 7.0.0-15-generic",
			"sudo apt-get purge amdgpu-dkms && sudo apt-get install linux-modules-extra-7.0.0-15-generic && sudo modprobe amdgpu"},
		"a hold": {DriverFacts{Packages: []Installed{{Name: "rocm-core", Version: "6.2.0", Status: "installed", Held: true}}},
			"rocm-core is held at 6.2.0", "sudo apt-mark unhold rocm-core"},
		"two releases": {DriverFacts{Sources: []AptEntry{{File: list, Line: 1, URI: radeon + "/rocm/apt/6.2"}, {File: list, Line: 4, URI: radeon + "/rocm/apt/6.3.2"}}},
			list + ":4 and " + list + ":1 are of two releases: " + radeon + "/rocm/apt/6.3.2 and " + radeon + "/rocm/apt/6.2", "sudo sed -i '4d' " + list},
		"latest beside the charm's": {DriverFacts{Sources: []AptEntry{{File: rocmSourceFile, Line: 2, URI: radeon + "/rocm/apt/6.3.2"}, {File: list, Line: 1, URI: radeon + "/rocm/apt/latest/"}}},
			"are of two releases", "sudo sed -i '1d' " + list},
		"the same before the charm's": {DriverFacts{Sources: []AptEntry{{File: "/etc/apt/sources.list.d/a.sources", Line: 2, URI: radeon + "/rocm/apt/6.3.2"}, {File: rocmSourceFile, Line: 2, URI: radeon + "/rocm/apt/6.3.2"}}},
			"name the same repository", "sudo rm /etc/apt/sources.list.d/a.sources"},
		"a pin": {DriverFacts{Pins: []Pin{{File: "/etc/apt/preferences.d/rocm", Line: 3, Package: "*", Pin: "release o=repo.radeon.com", Priority: "100"}}},
			`/etc/apt/preferences.d/rocm:3 pins * to "release o=repo.radeon.com" with priority 100`, "sudo rm /etc/apt/preferences.d/rocm"},
		"a pin in one line": {DriverFacts{Pins: []Pin{{File: "/etc/apt/preferences.d/rocm", Line: 1, Package: `*\nPin: release o=repo.radeon.com`}}},
			`/etc/apt/preferences.d/rocm:1 has \n instead of line ends`, "sudo rm /etc/apt/preferences.d/rocm"},
		"a blacklist": {DriverFacts{Blacklists: []Blacklist{{"/etc/modprobe.d/b.conf", 2, "blacklist amdgpu"}}},
			"/etc/modprobe.d/b.conf:2 keeps amdgpu from being loaded: blacklist amdgpu", "sudo sed -i '2d' /etc/modprobe.d/b.conf && sudo update-initramfs -u"},
		"a blacklist of the boot loader": {DriverFacts{Blacklists: []Blacklist{{"/proc/cmdline", 1, "modprobe.blacklist=amdgpu"}}},
			"/proc/cmdline:1 keeps", "sudo update-grub"},
		"no headers": {DriverFacts{Packages: []Installed{driver}, Kernel: rigKernel},
			"has no module for kernel " + rigKernel + ": its headers are missing", "sudo apt-get install linux-headers-" + rigKernel + " && sudo dkms autoinstall -k " + rigKernel},
		"not built": {DriverFacts{Packages: []Installed{driver}, Kernel: rigKernel, Headers: Headers{Present: true}},
			"is installed and has no module for kernel " + rigKernel, "sudo dkms autoinstall"},
		"a module of nobody": {DriverFacts{Module: Module{Files: []ModuleFile{built}}}, built.Path + " is of no package", "sudo dkms remove amdgpu/<version> --all"},
		"not a container's":  {DriverFacts{Kind: LXD, Module: Module{Files: []ModuleFile{built}}, Blacklists: []Blacklist{{"/etc/modprobe.d/b.conf", 2, "x"}}}, "", ""},
	} {
		got := Leftovers(c.f)
		if c.what == "" {
			require.Empty(t, got, name)
			continue
		}
		require.Len(t, got, 1, name)
		require.Contains(t, got[0].What, c.what, name)
		require.Contains(t, got[0].Fix, c.fix, name)
	}
}

// reset-rocm takes what is AMD's and leaves what is beside it.
func TestResetRemovesAMDsSoftware(t *testing.T) {
	g := newRig(t)
	const list, whole = "/etc/apt/sources.list.d/site.list", "/etc/apt/sources.list.d/rocm.list"
	const uri = "https://repo.radeon.com/rocm/apt/6.3.2"
	hosttest.Put(t, g.h.Root, list, "deb https://mirror.example.com/ubuntu noble main\ndeb "+uri+" noble main\n")
	hosttest.Put(t, g.h.Root, whole, "# of AMD\ndeb [arch=amd64] "+uri+"/ noble main\n")
	hosttest.Put(t, g.h.Root, "/etc/apt/sources.list.d/two.sources", "Types: deb\nURIs: "+uri+"\n\nTypes: deb\nURIs: https://mirror.example.com\n")
	hosttest.Put(t, g.h.Root, "/etc/apt/preferences.d/rocm", "x")
	hosttest.Put(t, g.h.Root, RebootFile, "[]")
	module := "/lib/modules/" + rigKernel + "/updates/dkms/amdgpu.ko"
	hosttest.Put(t, g.h.Root, module, "")
	hosttest.Put(t, g.h.Root, "/var/lib/dpkg/status", "Package: amdgpu-dkms\nStatus: install ok half-configured\nVersion: 1\n\n"+
		"Package: rocm-core\nStatus: install reinstreq half-installed\nVersion: 1\n\nPackage: hip-dev\nStatus: deinstall ok config-files\nVersion: 1\n\n")
	g.f.Packages = []Installed{{Name: "rocm-core"}, {Name: "amdgpu-dkms"}, {Name: "hip-dev"}, {Name: ToolkitPackage}}
	g.f.Sources = []AptEntry{{list, 2, uri}, {whole, 2, uri + "/"}, {"/etc/apt/sources.list.d/two.sources", 2, uri}}
	g.f.Pins = []Pin{{File: "/etc/apt/preferences.d/rocm"}, {File: "/etc/apt/preferences"}}
	g.f.Module.Files = []ModuleFile{{Path: module, DKMS: true}, {Path: "/lib/modules/x/kernel/amdgpu.ko"}}
	g.r.Answer("dpkg --remove --force-remove-reinstreq --force-depends rocm-core", "").Answer("depmod "+rigKernel, "").
		Answer("apt-get purge --yes --allow-change-held-packages -o DPkg::Lock::Timeout=600 amdgpu-dkms rocm-core", "")
	p := g.diff(ResetPlan(g.f))
	require.Empty(t, g.r.Ran, "a plan is no deed")
	hosttest.Golden(t, "testdata/reset.golden", printed(t, p))
	g.apply(p)
	require.Len(t, g.r.Ran, 3)
	text, err := g.h.ReadText(list)
	require.NoError(t, err)
	require.Equal(t, "deb https://mirror.example.com/ubuntu noble main", text)
	require.False(t, g.h.Exists(whole))
	require.True(t, g.h.Exists("/etc/apt/sources.list.d/two.sources"))

	hosttest.Put(t, g.h.Root, "/lib/modules/"+rigKernel+"/modules.dep", "updates/dkms/amdgpu.ko: kernel/x.ko\n")
	require.Contains(t, printed(t, g.diff(ResetPlan(g.f))), "DKMS's amdgpu", "it died before depmod")
	g.f.Kind = LXD
	require.NotContains(t, printed(t, g.diff(ResetPlan(g.f))), "DKMS", "a container's modules are the host's")
}

func TestUsecasesMatchTheRepository(t *testing.T) {
	got, err := usecasePackages([]string{"hip", "dkms", "rocm", "hip"})
	require.NoError(t, err)
	require.Equal(t, []string{"rocm-hip-runtime", "rocm"}, got)
	_, err = usecasePackages([]string{"graphics"})
	require.ErrorContains(t, err, `use case "graphics" is not one of hip, hiplibsdk, lrt, `)
}

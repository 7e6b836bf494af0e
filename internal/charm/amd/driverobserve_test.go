package amd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func noble(container string) Machine {
	return Machine{Manager: wellknown.Manager{Name: "juju-4f2a10-0"}, Container: container, Distro: "ubuntu", Series: "noble", Arch: "amd64"}
}

// Each fixture's facts and what is decided on them with default options.
func TestDriverFactsOfMachines(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	require.NoError(t, err)
	n := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		n++
		t.Run(e.Name(), func(t *testing.T) {
			m := noble("")
			if e.Name() == "lxd" {
				m = noble("lxc")
			}
			r := hosttest.Root(t, filepath.Join("testdata", e.Name()))
			before := tree(t, r)
			run := hosttest.NewRunner(t)
			if e.Name() != "lxd" && e.Name() != "metal-fresh" {
				run.Answer("modinfo", modinfoOf(e.Name()))
			}
			if e.Name() == "metal-fresh" || e.Name() == "metal-blacklisted" {
				run.Answer("apt-cache policy linux-headers-6.8.0-52-generic", "linux-headers-6.8.0-52-generic:\n  Installed: (none)\n  Candidate: 6.8.0-52.53\n  Version table:\n")
			}
			f, err := ObserveDriver(context.Background(), host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, m)
			require.NoError(t, err)
			require.Positive(t, f.Disk) // the test machine's own
			f.Disk = 100 * units.GB
			var b strings.Builder
			require.NoError(t, f.Print(&b))
			require.NoError(t, Decide(f, defaults()).Print(&b))
			hosttest.Golden(t, filepath.Join("testdata", e.Name()+".golden"), b.String())
			require.Equal(t, before, tree(t, r), "looking changed something")
		})
	}
	require.Equal(t, 7, n)
}

// The bus still has a GPU that can't be read, and its driver is known by the link.
func TestUnreadableGPUIsListed(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	want, err := pciGPUs(r)
	require.NoError(t, err)
	require.Len(t, want, 2)
	require.NoError(t, r.Remove("/sys/bus/pci/devices/"+want[0].PCI+"/uevent"))
	got, err := pciGPUs(r)
	require.NoError(t, err)
	require.Equal(t, []gpu.GPU{{Slot: want[0].Slot, Driver: "amdgpu"}, want[1]}, got)
}

// Names, chips and KFD are those of list-gpus.
func TestFactsAgreeWithTheListOfGPUs(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	require.NoError(t, r.Remove("/sys/class/kfd/kfd/topology/nodes/2/properties"))
	hosttest.Put(t, r, "/sys/class/kfd/kfd/topology/nodes/2/properties", "cpu_cores_count 96\n")
	hosttest.Put(t, r, "/usr/share/misc/pci.ids", "1002  AMD\n\t6610  Oland XT [Radeon HD 8670]\n")
	hosttest.Put(t, r, "/sys/bus/pci/devices/0000:81:00.0/uevent", "PCI_CLASS=30000\nPCI_ID=1002:6610\nPCI_SLOT_NAME=0000:81:00.0\n")
	gpus, err := pciGPUs(r)
	require.NoError(t, err)
	require.NoError(t, describeGPUs(r, gpus))
	require.Equal(t, []gpu.GPU{
		{Slot: gpu.Slot{PCI: "0000:04:00.0", GFX: "gfx942", Model: "AMD Instinct MI300X OAM"}, DeviceID: 0x74a1,
			Driver: "amdgpu"},
		{Slot: gpu.Slot{PCI: "0000:0b:00.0", GFX: "gfx942", Model: "AMD Instinct MI300X"}, DeviceID: 0x74a1,
			Driver: "amdgpu", NotInKFD: true},
		{Slot: gpu.Slot{PCI: "0000:81:00.0", Model: "AMD Radeon HD 8670"}, DeviceID: 0x6610},
	}, gpus)
}

// modinfoOf is what modinfo reports of the module on disk.
func modinfoOf(fixture string) string {
	switch fixture {
	case "metal-reboot", "vm-foreign":
		return "filename:       x\nversion:        6.10.5\nlicense:        GPL and additional rights\nsrcversion:     8B3A9B7E5866E52F63B9ACC\n"
	}
	return "filename:       x\nlicense:        GPL and additional rights\nsrcversion:     533BB7E5866E52F63B9ACCB\n"
}

func tree(t *testing.T, r host.Root) (files map[string]string) {
	files = map[string]string{}
	require.NoError(t, filepath.WalkDir(string(r), func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := os.ReadFile(p)
			files[p] = string(data)
		}
		return err
	}))
	return files
}

func TestFactsWithoutKmodAndAptAreEmpty(t *testing.T) {
	r := hosttest.Root(t, "testdata/metal-fresh")
	run := hosttest.NewRunner(t).Fail("apt-cache", 100, "E: no lists").Fail("modinfo", 1, "not found")
	f, err := ObserveDriver(context.Background(), host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, noble(""))
	require.NoError(t, err)
	require.Equal(t, Headers{Package: "linux-headers-6.8.0-52-generic"}, f.Headers)

	r = hosttest.Root(t, "testdata/metal-reboot")
	run = hosttest.NewRunner(t).Fail("modinfo", 1, "not found")
	f, err = ObserveDriver(context.Background(), host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, noble(""))
	require.NoError(t, err)
	require.False(t, f.Module.Stale())
}

// The commands have deadlines and are marked as reading only.
func TestObservingOnlyReads(t *testing.T) {
	r := hosttest.Root(t, "testdata/metal-blacklisted")
	var seen []host.Command
	run := recorder{&seen}
	_, err := ObserveDriver(context.Background(), host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, noble(""))
	require.NoError(t, err)
	require.Len(t, seen, 2)
	for _, c := range seen {
		require.True(t, c.ReadOnly, c.String())
		require.Equal(t, readLimit, c.Deadline)
	}
}

type recorder struct{ seen *[]host.Command }

func (r recorder) Run(_ context.Context, c host.Command) ([]byte, error) {
	*r.seen = append(*r.seen, c)
	return nil, nil
}

func TestMachineKind(t *testing.T) {
	for _, c := range []struct {
		container, vendor, product, flags string
		want                              MachineKind
	}{
		{"lxc", "QEMU", "", "", LXD},
		{"docker", "", "", "", OtherContainer},
		{"systemd-nspawn", "", "", "", OtherContainer},
		{"", "QEMU", "Standard PC", "fpu", VM},
		{"", "Microsoft Corporation", "Virtual Machine", "fpu", VM},
		{"", "Amazon EC2", "m7a.large", "fpu", VM},
		{"", "Amazon EC2", "m7a.metal-48xl", "fpu", Metal},
		{"", "", "", "fpu hypervisor lm", VM},
		{"", "Supermicro", "H13", "fpu hypervisors", Metal},
		{"", "", "", "", Metal},
	} {
		r := hosttest.Root(t)
		hosttest.Put(t, r, "/sys/class/dmi/id/sys_vendor", c.vendor+"\n")
		hosttest.Put(t, r, "/sys/class/dmi/id/product_name", c.product+"\n")
		hosttest.Put(t, r, "/proc/cpuinfo", "processor\t: 0\nflags\t\t: "+c.flags+"\n\nprocessor\t: 1\n")
		got, _ := machineKind(r, c.container)
		require.Equal(t, c.want, got, "%+v", c)
		require.Equal(t, 2, cpus(r))
	}
}

func TestSecureBootIsReadFromTheVariable(t *testing.T) {
	for data, want := range map[string]bool{"\x06\x00\x00\x00\x01": true, "\x06\x00\x00\x00\x00": false, "\x01": false, "": false} {
		r := hosttest.Root(t)
		hosttest.Put(t, r, "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", data)
		require.Equal(t, want, secureBoot(r))
	}
	require.False(t, secureBoot(hosttest.Root(t)))
}

func TestAptSourcesOfBothFormats(t *testing.T) {
	require.Equal(t, []AptEntry{{"f", 3, "https://repo.radeon.com/rocm/apt/6.3.2"}, {"f", 10, "https://m/amdgpu/6.4.3/ubuntu/"}},
		deb822Entries("f", "Types: deb\nURIs:\n https://repo.radeon.com/rocm/apt/6.3.2\n https://m/debian\nSuites: noble\n\n"+
			"# URIs: https://repo.radeon.com/rocm/apt/5.7\nTypes: deb\nX-Note: https://repo.radeon.com/a\nuris: https://m/amdgpu/6.4.3/ubuntu/\nEnabled: yes\n\n"+
			"URIs: https://repo.radeon.com/rocm/apt/5.7\nEnabled: no\n"))
	require.Equal(t, []AptEntry{{"f", 1, "https://repo.radeon.com/rocm/apt/6.3.2"}, {"f", 4, "file:/srv/amd-container-toolkit/apt/1.2.0"}},
		listEntries("f", "deb [signed-by=/k arch=amd64] https://repo.radeon.com/rocm/apt/6.3.2 noble main # https://x\n"+
			"deb https://m/debian noble main\n#deb https://repo.radeon.com/rocm/apt/5.7 noble main\ndeb file:/srv/amd-container-toolkit/apt/1.2.0 noble main\ndeb\n"))
	for uri, want := range map[string]string{"https://repo.radeon.com/amdgpu/6.3.2/ubuntu": "6.3.2", "http://m/x/amdgpu/30.10.2/ubuntu/": "30.10.2",
		"https://m/amdgpu/6.3.2": "", "https://m/amdgpu": "", "https://m/amdgpu/a/b/ubuntu": "", "": ""} {
		require.Equal(t, want, driverRelease(uri), uri)
	}
}

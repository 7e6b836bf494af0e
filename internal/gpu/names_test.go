package gpu

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	someAMDGPUIDs = "# List of AMDGPU IDs\n\n1.0.0\n1506,\tC1,\tAMD Radeon 610M\n744C,\tC8,\tAMD from ids XTX\n744C,\tCC,\tAMD  from ids XT \n"
	somePCIIDs    = "#\tList\n0e11  Compaq\n\t744c  Not this one\n1002  AMD/ATI\n\t744c  Navi 31 [Radeon of pci.ids]\n\t\t1eae 7905  A board\n" +
		"\t75a0  Plain name\n10de  NVIDIA Corporation\n\t2684  AD102 [GeForce of pci.ids]\nfffe  VMWare\nC 03  Display controller\n\t00  VGA\n"
)

// TestSourcesOfNames: product_name, amdgpu.ids, pci.ids, our table, the id.
func TestSourcesOfNames(t *testing.T) {
	const product = "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0/product_name"
	const misc, hwdata = "/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"
	for name, tc := range map[string]struct {
		files       map[string]string
		amd, nvidia string
	}{
		"nothing installed":    {nil, "AMD Radeon RX 7900 XT", "NVIDIA GeForce RTX 4090"},
		"product_name":         {map[string]string{product: " AMD Board 7 \n", amdgpuIDs: someAMDGPUIDs, misc: somePCIIDs}, "AMD Board 7", "NVIDIA GeForce of pci.ids"},
		"filled up to a page":  {map[string]string{product: "AMD Board 7\n" + strings.Repeat("\x00", 4084)}, "AMD Board 7", "NVIDIA GeForce RTX 4090"},
		"empty product_name":   {map[string]string{product: "\n", amdgpuIDs: someAMDGPUIDs}, "AMD from ids XT", "NVIDIA GeForce RTX 4090"},
		"amdgpu.ids wins":      {map[string]string{amdgpuIDs: someAMDGPUIDs, misc: somePCIIDs}, "AMD from ids XT", "NVIDIA GeForce of pci.ids"},
		"pci.ids alone":        {map[string]string{misc: somePCIIDs}, "AMD Radeon of pci.ids", "NVIDIA GeForce of pci.ids"},
		"pci.ids of hwdata":    {map[string]string{hwdata: somePCIIDs}, "AMD Radeon of pci.ids", "NVIDIA GeForce of pci.ids"},
		"the files are broken": {map[string]string{amdgpuIDs: strings.Repeat("x", 200_000), misc: "\x00\xff"}, "AMD Radeon RX 7900 XT", "NVIDIA GeForce RTX 4090"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "both-passed")
			for path, text := range tc.files {
				hosttest.Put(t, r, path, text)
			}
			inv, err := Discover(r)
			require.NoError(t, err)
			require.Equal(t, tc.amd, inv.GPUsOf(AMD)[0].Model)
			require.Equal(t, tc.nvidia, inv.GPUsOf(NVIDIA)[0].Model)
		})
	}
}

func TestNamesOfUnknownModels(t *testing.T) {
	want := names{}
	require.Equal(t, "AMD GPU 1002:7fff", want.find(model{AMD, 0x7fff, 0}))
	require.Equal(t, "NVIDIA GPU 10de:0001", want.find(model{NVIDIA, 1, 0}))
	require.Equal(t, "AMD Radeon RX 7900 XTX", want.find(model{AMD, 0x744c, 0xc8}))
	require.Equal(t, "AMD GPU 1002:744c", want.find(model{AMD, 0x744c, 0x01}), "of two names for one device id none is a guess")
	for name, m := range map[string]model{
		"AMD Instinct MI210": {AMD, 0x740f, 0x02}, "AMD Instinct MI308X": {AMD, 0x74a2, 0}, "AMD Instinct MI325X VF": {AMD, 0x74b9, 0},
		"AMD Instinct MI350X": {AMD, 0x75a0, 0xc0}, "AMD Instinct MI350X VF": {AMD, 0x75b0, 0}, "AMD Radeon PRO W7700": {AMD, 0x7470, 0},
		"AMD Radeon RX 7600S": {AMD, 0x7480, 0xc3}, "AMD Radeon AI PRO R9700": {AMD, 0x7551, 0xc0},
	} {
		require.Equal(t, name, want.find(m))
	}
}

// TestPCIIDsAreReadNoFurtherThanNeeded: each line that scan refuses ends the
// reading of a file of 1.5 MB.
func TestPCIIDsAreReadNoFurtherThanNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		want names
		last string
	}{
		"AMD only":         {names{{AMD, 0x744c, 0}: ""}, "10de  NVIDIA Corporation\n"},
		"NVIDIA too":       {names{{AMD, 0x744c, 0}: "", {NVIDIA, 0x2684, 0}: ""}, "fffe  VMWare\n"},
		"AMD, not in file": {names{{AMD, 0x0001, 0}: ""}, "10de  NVIDIA Corporation\n"},
	} {
		t.Run(name, func(t *testing.T) {
			scan, last := tc.want.scanPCI(), ""
			for line := range strings.Lines(somePCIIDs) {
				last = line
				if !scan([]byte(line)) {
					break
				}
			}
			require.Equal(t, tc.last, last)
		})
	}
}

func FuzzNameFiles(f *testing.F) {
	f.Add(someAMDGPUIDs)
	f.Add(somePCIIDs)
	f.Add("1002  x\n\t744c\n\t744c  \n\t744c  [\n\t744c  []\n744C,,\n,,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		want := names{{AMD, 0x744c, 0xcc}: "", {NVIDIA, 0x2684, 0}: ""}
		pci := want.scanPCI()
		for line := range strings.Lines(text) {
			want.scanAMDGPU([]byte(line))
			pci([]byte(line))
		}
		require.Len(t, want, 2)
		for m := range want {
			name := want.find(m)
			require.NotEmpty(t, name)
			require.LessOrEqual(t, len(name), 110)
			require.NotContains(t, name, "\n")
		}
	})
}

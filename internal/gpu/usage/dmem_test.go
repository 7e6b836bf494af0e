package usage

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeakIsOfTheGPUsOwnMemory(t *testing.T) {
	for text, want := range map[string][]Amount{
		"drm/0000:03:00.0/vram0 8589934592\n":                                   {{"vram", 8589934592}},
		"drm/0000:03:00.0/vram0 1024\ndrm/0000:03:00.0/vram1 1024\n":            {{"vram", 2048}},
		"drm/0000:43:00.0/vram0 7\ndrm/0000:03:00.0/vram0 0\n":                  {{"vram", 0}},
		"drm/0000:43:00.0/vram0 7\n":                                            nil,
		"drm/0000:03:00.0/stolen 7\ndrm/0000:03:00.0/vram0 max\n\n0000:03:00.0": nil,
		"": nil,
	} {
		require.Equal(t, want, peakOf(text, "0000:03:00.0"), text)
	}
}

// The control group counts what no look at processes has seen, also of those that ended.
func TestPeakComesFromTheContainersControlGroup(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1, 0))
	s := m.scanner(Options{})
	dir := placeOf(task, nil).dirs[0]
	scan := func(devices ...Device) []Amount {
		s.Scan(context.Background(), devices)
		for _, r := range s.Last().Of(first) {
			if r.Container == handle {
				return r.Peak
			}
		}
		t.Fatal("the container is not seen")
		return nil
	}
	require.Nil(t, scan(first), "an older kernel")
	require.NoError(t, m.root.MkdirAll(dir, 0o755))
	require.NoError(t, m.root.WriteFile(dir+"/dmem.peak", []byte("drm/"+first.PCI+"/vram0 4096\n"), 0o444))
	require.Equal(t, []Amount{{"vram", 4096}}, scan(first))
	require.Equal(t, []Amount{{"vram", 4096}}, scan(first, second))
	require.Nil(t, scan(first, Device{PCI: first.PCI, Partition: 1, Own: first.Own}), "nobody knows whose partition's it is")
}

func FuzzPeak(f *testing.F) {
	f.Add("drm/0000:03:00.0/vram0 8589934592\n")
	f.Add("drm/0000:03:00.0/vram0 18446744073709551615\ndrm/0000:03:00.0/vram1 -1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range peakOf(text, "0000:03:00.0") {
			require.GreaterOrEqual(t, a.Value, 0.0)
		}
	})
}

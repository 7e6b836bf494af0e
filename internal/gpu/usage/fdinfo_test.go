package usage

import (
	"strings"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/stretchr/testify/require"
)

func TestInfoOfEveryKernel(t *testing.T) {
	none := [numKinds]int64{-1, -1, -1, -1}
	for name, c := range map[string]struct {
		text string
		want info
	}{
		"Linux 5.19 to 6.12": {
			"pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t1204\npasid:\t32771\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:83:00.0\n" +
				"drm-client-id:\t1203108\ndrm-memory-vram:\t76 KiB\ndrm-memory-gtt: \t44 KiB\ndrm-memory-cpu: \t6200 KiB\n" +
				"amd-memory-visible-vram:\t76 KiB\namd-evicted-vram:\t0 KiB\ndrm-engine-gfx:\t39456116802 ns\ndrm-engine-enc_1:\t5 ns\n",
			info{driver: "amdgpu", pci: "0000:83:00.0", client: 1203108, known: true, pasid: 32771,
				memory:  [numKinds]int64{76 << 10, 44 << 10, 6200 << 10, -1},
				engines: []engine{{"gfx", 39456116802}, {"enc_1", 5}}},
		},
		"Linux 6.13 and later": {
			"drm-driver:\tamdgpu\ndrm-client-id:\t30\ndrm-pdev:\t0000:04:00.0\npasid:\t32785\ndrm-total-cpu:\t0\ndrm-shared-cpu:\t0\n" +
				"drm-resident-cpu:\t0\ndrm-total-gtt:\t23 MiB\ndrm-resident-gtt:\t22 MiB\ndrm-total-vram:\t600000 KiB\ndrm-shared-vram:\t13584 KiB\n" +
				"drm-resident-vram:\t544428 KiB\ndrm-memory-vram:\t1 KiB\ndrm-memory-gtt: \t22528 KiB\ndrm-memory-cpu: \t0 KiB\n",
			info{driver: "amdgpu", pci: "0000:04:00.0", client: 30, known: true, pasid: 32785,
				memory: [numKinds]int64{544428 << 10, 22 << 20, 0, -1}},
		},
		"what another driver adds":      {"drm-driver:\tx\ndrm-engine-capacity-gfx:\t2\ndrm-cycles-gfx:\t7\ndrm-maxfreq-gfx:\t100 MHz\n", info{driver: "x", memory: none}},
		"the last line is half":         {"drm-driver:\tamdgpu\ndrm-memory-vram:\t76 KiB\ndrm-engine-gfx:\t394", info{driver: "amdgpu", memory: [numKinds]int64{76 << 10, -1, -1, -1}}},
		"the unit has no space":         {"drm-memory-vram:\t76KiB\n", info{memory: none}},
		"bytes":                         {"drm-memory-vram: 4096\n", info{memory: [numKinds]int64{4096, -1, -1, -1}}},
		"numbers that are none":         {"drm-client-id:\t-1\npasid:\t99999999999\ndrm-memory-vram:\t-1 KiB\ndrm-memory-gtt:\t18446744073709551615 KiB\ndrm-engine-gfx:\t1e9 ns\n", info{memory: none}},
		"an engine's name is no label":  {"drm-engine-a\"b:\t1 ns\ndrm-engine-:\t1 ns\ndrm-engine-" + strings.Repeat("x", 33) + ":\t1 ns\n", info{memory: none}},
		"names of engines":              {"drm-engine-az-09_:\t1 ns\ndrm-engine-" + strings.Repeat("x", 32) + ":\t2 ns\ndrm-engine-A:\t3 ns\ndrm-engine-{:\t4 ns\ndrm-engine-`:\t5 ns\n", info{memory: none, engines: []engine{{"az-09_", 1}, {strings.Repeat("x", 32), 2}}}},
		"an engine twice":               {"drm-engine-gfx:\t1 ns\ndrm-engine-gfx:\t2 ns\n", info{memory: none, engines: []engine{{"gfx", 1}}}},
		"a line without a colon, empty": {"drm-driver\n\n\n:\n", info{memory: none}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, parseInfo(c.text))
		})
	}
}

func TestEnginesOfAClientAreBounded(t *testing.T) {
	var b strings.Builder
	for c := 'a'; c <= 'z'; c++ {
		b.WriteString("drm-engine-" + string(c) + ":\t1 ns\n")
	}
	require.Len(t, parseInfo(b.String()).engines, maxEngines)
}

func TestHugeFileIsReadToItsLimit(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	m.opens(100, 5, "/dev/dri/renderD128", amdgpu(first.PCI, 7, 1024, 1_000_000_000)+strings.Repeat("drm-engine-gfx2:\t1 n\n", 1<<16)+"drm-engine-dma:\t1 ns\n")
	require.Equal(t, `"`+handle+`": 1 vram=1.048576e+06 gtt=2.097152e+06 cpu=0 gfx=1s
`, scan(t, m.scanner(Options{}), first))
}

func FuzzInfo(f *testing.F) {
	f.Add(amdgpu("0000:03:00.0", 7, 1024, 5))
	f.Add("drm-driver:\tamdgpu\ndrm-resident-vram:\t544428 KiB\ndrm-memory-vram:\t1 GiB\ndrm-engine-gfx: 1 ns\n")
	f.Add("drm-memory-vram:\t9223372036854775807 MiB\npasid:\t\x00\n:\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := parseInfo(text)
		require.LessOrEqual(t, len(in.engines), maxEngines)
		for _, e := range in.engines {
			require.True(t, plain(e.name))
			require.LessOrEqual(t, e.ns, uint64(1<<63-1))
		}
		for _, n := range in.memory {
			require.GreaterOrEqual(t, n, int64(-1))
			require.LessOrEqual(t, n, int64(maxBytes))
		}
		require.Equal(t, int64(-1), in.memory[kindKFD])
		cut := parseInfo(text[:len(text)/2]) // what a limit of reading leaves is not a worse
		if in.driver == "" {
			require.Empty(t, cut.driver)
		}
	})
}

// Of NVIDIA's GPUs only processes are known, by the nodes that they hold open.
func TestUsersOfNVIDIAGPUsHaveTheirNodesOpen(t *testing.T) {
	m := newMachine(t)
	zero, one := gpu.Slot{Vendor: gpu.NVIDIA, PCI: "0000:0a:00.0"}, gpu.Slot{Vendor: gpu.NVIDIA, PCI: "0000:0b:00.0"}
	m.file("/proc/driver/nvidia/gpus/0000:0a:00.0/information", "Device Minor: \t 0\n")
	m.file("/proc/driver/nvidia/gpus/0000:0b:00.0/information", "Device Minor: \t 1\n")
	unknown := gpu.Slot{Vendor: gpu.NVIDIA, PCI: "0000:0c:00.0"}
	m.process(100, task)
	m.link("/proc/100/fd/4", "/dev/nvidiactl")
	m.link("/proc/100/fd/5", "/dev/nvidia0")
	m.link("/proc/100/fd/6", "/dev/nvidia0")
	m.link("/proc/100/fd/7", "/dev/nvidia-uvm")
	m.link("/proc/100/fd/8", "/dev/nvidia7") // not ours
	m.process(200, system)
	m.link("/proc/200/fd/4", "/dev/nvidia0")
	s := m.scanner(Options{})
	s.Scan(t.Context(), []gpu.Slot{unknown})
	require.Nil(t, s.Last(), "nobody's users can be found")
	s.Scan(t.Context(), []gpu.Slot{first, unknown, zero, one})
	require.Nil(t, s.Last().Find(unknown))
	require.Equal(t, `"": 1
"`+handle+`": 1
`, rows(s.Last(), zero))
	require.Empty(t, rows(s.Last(), one))
	require.Empty(t, rows(s.Last(), first))
	m.ends(100)
	m.now = m.now.Add(15 * time.Second)
	s.Scan(t.Context(), []gpu.Slot{first, zero, one})
	require.Contains(t, rows(s.Last(), zero), `"": 1`)
	require.NotContains(t, rows(s.Last(), zero), handle+`": 1`)
}

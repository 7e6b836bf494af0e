package nvidiagpu

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// help is how nvidia-smi --help-query-gpu describes fields, cut down.
func help(names ...string) string {
	text := "List of valid properties to query for the switch \"--query-gpu=\":\n\n"
	for _, n := range names {
		text += "\"" + n + "\"\nThe " + n + ", in words.\n\n"
	}
	return text
}

// The first fields are asked for by what this release calls them, and none that it
// does not know.
func TestQueryHasOnlySupportedFields(t *testing.T) {
	known := parseHelp(help("timestamp", "pci.bus_id", `uuid" or "gpu_uuid`, `clocks.current.sm" or "clocks.sm`, "temperature.gpu", "clocks_throttle_reasons.active"))
	require.Equal(t, []string{"pci.bus_id", "uuid", "temperature.gpu", "clocks.current.sm", "clocks_throttle_reasons.active"}, supportedFields(known))
	known["clocks_event_reasons.active"] = true
	require.Contains(t, supportedFields(known), "clocks_event_reasons.active")
	require.NotContains(t, supportedFields(known), "clocks_throttle_reasons.active")
	require.Empty(t, supportedFields(parseHelp("Failed to initialize NVML: Driver/library version mismatch\n")))
}

func TestRowsAreRead(t *testing.T) {
	query := []string{addressField, uuidField, recoveryField, "temperature.gpu", "power.draw", "remapped_rows.pending", "clocks_throttle_reasons.active"}
	told := func(pci, state string, values map[string]float64) []Answer {
		return []Answer{{PCI: pci, UUID: "GPU-1", State: state, Values: values}}
	}
	for line, want := range map[string][]Answer{
		"00000000:0A:00.0, GPU-1, None, 61, 312.44, No, 0x0000000000000024":                     told("0000:0a:00.0", "", map[string]float64{"temperature.gpu": 61, "power.draw": 312.44, "remapped_rows.pending": 0, "clocks_event_reasons.active": 36}),
		"00010000:3B:00.0, GPU-1, [N/A], 61, [Not Supported], Yes, [Unknown Error]":             told("10000:3b:00.0", "", map[string]float64{"temperature.gpu": 61, "remapped_rows.pending": 1}),
		"0000:0a:00.0, GPU-1, N/A, ERR!, [N/A], N/A, 0xZZ":                                      told("0000:0a:00.0", "", map[string]float64{}),
		"00000000:0A:00.0, GPU-1, Reset, 61, [N/A], [N/A], [N/A]":                               told("0000:0a:00.0", needsReset, map[string]float64{"temperature.gpu": 61}),
		"00000000:0A:00.0, GPU-1, [N/A], [GPU requires reset], [N/A], [GPU is lost], [N/A]":     told("0000:0a:00.0", lostState, map[string]float64{}),
		"00000000:0A:00.0, GPU-1, Reboot, [GPU is lost], [N/A], [GPU requires reset], [N/A]":    told("0000:0a:00.0", lostState, map[string]float64{}),
		"00000000:0A:00.0, GPU-1, [N/A], NaN, Inf, 1e400, 0xffffffffffffffff":                   told("0000:0a:00.0", "", map[string]float64{}),
		"[N/A], GPU-1, None, 61, 312.44, No, 0x4":                                               nil,
		"../../etc/passwd, GPU-1, None, 61, 312.44, No, 0x4":                                    nil,
		"00000000:0A:00.0, GPU-1, None, 61, 312.44, No":                                         nil,
		"Unable to determine the device handle for GPU0: 0000:0A:00.0: GPU is lost.  Reboot it": nil,
		"": nil,
	} {
		require.Equal(t, want, parseRows(query, line+"\r\n"), line)
	}
	many := strings.Repeat("00000000:0A:00.0, GPU-1, None, 61, 1, No, 0x4\n", 2*maxGPUs)
	require.Len(t, parseRows(query, many), maxGPUs)
}

func TestStateTextsOfTheDriverAreRead(t *testing.T) {
	require.Equal(t, information{"Tesla T4", "GPU-0a1b", "90.04.96.00.9f"},
		parseInformation("Model: \t\t Tesla T4\nIRQ:   \t\t 57\nGPU UUID: \t GPU-0a1b\nVideo BIOS: \t 90.04.96.00.9f\nBus Type: \t PCIe\n"))
	require.Equal(t, information{model: "Tesla T4"}, // no one has opened it yet
		parseInformation("Model: \t\t Tesla T4\nGPU UUID: \t GPU-????????-????-????-????-????????????\nVideo BIOS: \t ??.??.??.??.??\n"))
	require.Zero(t, parseInformation("Model:"+strings.Repeat("x", 1000)))
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 12.2.0\n":                       "550.54.15",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)  Tue Oct  7 02:20:42 UTC 2025\nGCC 12.2.0\n": "580.159.04",
		"": "", "NVRM version: none": "",
	} {
		require.Equal(t, want, parseVersion(text))
	}
}

func FuzzSMI(f *testing.F) {
	query := supportedFields(parseHelp(help(addressField, uuidField, recoveryField, "temperature.gpu", "pcie.link.gen.current", "memory.used", "clocks_event_reasons.active")))
	f.Add("00000000:0A:00.0, GPU-1, None, 61, 4, 20310, 0x0000000000000024\n")
	f.Add(help("pci.bus_id", "uuid"))
	f.Fuzz(func(t *testing.T, text string) {
		for _, told := range parseRows(query, text) {
			require.NotEmpty(t, told.PCI)
			require.LessOrEqual(t, len(told.UUID), 64)
			var s reading.State
			told.fill(&s)
		}
		for name := range parseHelp(text) {
			require.Regexp(t, `^[a-z0-9._]+$`, name)
		}
		parseInformation(text)
		parseVersion(text)
	})
}

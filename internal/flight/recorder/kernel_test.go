package recorder

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
)

// Bit 61 of a machine check's status (UC) is 0 for an error that the processor corrected
// (arch/x86/include/asm/mce.h).
func TestOnlyUncorrectedErrorsAreTheMachines(t *testing.T) {
	for line, want := range map[string]bool{
		"mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: bea0000000000108":           true,
		"mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 5: be00000000800400": true,
		"[Hardware Error]: Uncorrected, software restartable error.":                        true,
		"EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0":                true,
		"critical medium error, dev sda, sector 4096 op 0x0:(READ)":                         true,
		"mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 1: 9400000000000151":           false,
		"mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 1: dc00004000010092":           false,
		"mce: [Hardware Error]: TSC 0 ADDR 7f1c8a40 MISC 86":                                false,
		"mce: [Hardware Error]: PROCESSOR 0:50654 TIME 1750000000 SOCKET 0 APIC 2":          false,
		"mce: [Hardware Error]: Machine check events logged":                                false,
		"[Hardware Error]: Corrected error, no action required.":                            false,
		"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0":                false,
		// A process with the name "EDAC MC0: 1 UE ", and a file of it (arch/x86/kernel/signal.c).
		"EDAC MC0: 1 UE [712] bad frame in rt_sigreturn frame:7f ip:40 sp:7f orax:f in a on b[40+1]": false,
	} {
		f := parse(kernellog.Message{Text: line})
		require.Equal(t, want, f.kind == taskrecord.HardwareFail && f.machine, line)
	}
}

package signs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

const card, port = "0000:03:00.0", "0000:00:01.1"

func harmless(f Found) bool { return f.Sign != nil && f.Meaning == Harmless }

// sample returns a line's text with something for each "...".
func sample(s *Sign) string { return strings.ReplaceAll(s.Text, "...", "(x_1.0)") + " 12" }

func TestEachRowIsReadInEachPrefix(t *testing.T) {
	for i := range Table {
		s := &Table[i]
		forms := map[string]string{"amdgpu " + card + ": ": card}
		if s.Port {
			forms["pcieport "+port+": "], forms["pcieport "+port+": AER: "] = port, port
			forms["pciehp "+port+":pcie004: "], forms["pcieport "+port+": pciehp: "] = port, port
		} else {
			for _, mark := range []string{"amdgpu: ", "[drm] ", "amdgpu: [drm] *ERROR* ", "[drm:x.isra.0 [amdgpu]] *ERROR* ", "amdgpu: {17}"} {
				forms["amdgpu "+card+": "+mark] = card
			}
			for _, driver := range []string{"amdgpu: ", "[drm] ", "[drm] *ERROR* ", "[drm:x.constprop.0 [amdgpu]] *ERROR* ", "kfd kfd: amdgpu: "} {
				forms[driver] = ""
			}
		}
		for form, device := range forms {
			f, ok := Read(form + sample(s))
			require.True(t, ok, form+sample(s))
			require.Equal(t, s.Text, f.Text, form+sample(s))
			require.Equal(t, device, f.Device, form)
		}
		require.NotEmpty(t, s.Source, s.Text)
		require.GreaterOrEqual(t, len(strings.ReplaceAll(s.Text, "...", "")), 10, s.Text)
	}
}

// The lines are of reports and of several releases of the driver.
func TestLinesOfSeveralReleases(t *testing.T) {
	for line, want := range map[string]struct {
		meaning Meaning
		device  string
		pid     int
	}{
		"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=7, emitted seq=9":                                               {Stuck, "", 0},
		"amdgpu 0000:03:00.0: amdgpu: ring sdma0 timeout, but soft recovered":                                                                            {RingReset, card, 0},
		"amdgpu 0000:03:00.0: Ring comp_1.0.0 reset failure":                                                                                             {Hung, card, 0},
		"amdgpu 0000:03:00.0: MES(0, 0) failed to respond to msg=REMOVE_QUEUE":                                                                           {Hung, card, 0},
		"[drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed to response msg=3":                                       {Hung, "", 0},
		"amdgpu: HIQ MQD's queue_doorbell_id0 is not 0, Queue preemption time out":                                                                       {Stuck, "", 0},
		"amdgpu: Resetting wave fronts (cpsch) on dev 00000000b40e7982":                                                                                  {Hung, "", 0},
		"amdgpu 0000:03:00.0: XCC 3: Queue preemption failed for queue with doorbell_id: 80004008":                                                       {Stuck, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: queue id 0x1 at pasid 0x8005 is reset":                                                                             {RingReset, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: GPU reset begin!. Source:  3":                                                                                      {Reset, card, 0},
		"[drm] psp gfx command INVOKE_CMD(0x3) failed and response status is (0x0)":                                                                      {Hung, "", 0},
		"amdgpu 0000:03:00.0: amdgpu: SMU: response:0xFFFFFFFF for index:18 param:0x00000005 message:TransferTableSmu2Dram?":                             {Lost, card, 0},
		"amdgpu: [powerplay] Failed to send message 0x10, response 0xffffffff":                                                                           {Lost, "", 0},
		"amdgpu 0000:03:00.0: psp reg (0x16080) wait timed out, mask: 80000000, read: ffffffff exp: 80000000":                                            {Hung, card, 0},
		"pcieport 0000:00:01.1: AER: device recovery failed":                                                                                             {Lost, port, 0},
		"amdgpu 0000:03:00.0: Unable to change power state from D0 to D3hot, device inaccessible":                                                        {Lost, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: socket: 0, die: 1, 3 new uncorrectable hardware errors detected in umc block":                                      {Memory, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: 10 uncorrectable hardware errors detected in gfx block":                                                            {Memory, card, 0},
		"amdgpu 0000:03:00.0: {14}poison is consumed by client 12, kick off gpu reset flow":                                                              {Memory, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: {5}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!":                                               {Memory, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: XGMI PCS CRCErr detected":                                                                                          {Link, card, 0},
		"amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:12 pasid:32773, for process x pid 9 thread pid 8285 thread x pid 8286)": {Fault, card, 8285},
		"pcieport 0000:00:01.1: pciehp: Slot(0): Link Down":                                                                                              {Lost, port, 0},
		"pciehp 0000:00:01.1:pcie004: Slot(0-1): Card not present":                                                                                       {Lost, port, 0},
		"pcieport 0000:00:01.1: DPC: containment event, status:0x1f01 source:0x0000":                                                                     {Lost, port, 0},
		"pcieport 0000:00:01.1: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)":                              {Lost, port, 0},
		"pcieport 0000:00:01.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)":                                                 {Link, port, 0},
		"pcieport 0000:00:01.1: AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:03:00.0":                                        {Link, port, 0},
		"amdgpu 0000:03:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible, (Unregistered Agent ID)":                                  {Lost, card, 0},

		"amdgpu 0000:03:00.0: amdgpu: Process information: process python3 pid 77 thread python3 pid 78": {"", card, 77},
		"amdgpu 0000:03:00.0:  Process  pid 77 thread  pid 77":                                           {"", card, 77},
		"amdgpu 0000:03:00.0: amdgpu:  in process python3 pid 77 thread python3 pid 77":                  {"", card, 77},
		"kfd kfd: amdgpu: Process 25333 (pasid 0x8003) got unhandled exception":                          {Fault, "", 25333},
	} {
		f, ok := Read(line)
		require.True(t, ok, line)
		if want.meaning != "" {
			require.NotNil(t, f.Sign, line)
			require.Equal(t, want.meaning, f.Meaning, line)
		} else {
			require.Nil(t, f.Sign, line)
		}
		require.Equal(t, want.device, f.Device, line)
		require.Equal(t, want.pid, f.PID, line)
	}
}

func TestHarmlessLinesAreNoSigns(t *testing.T) {
	for _, line := range []string{
		"amdgpu: Runlist is getting oversubscribed. Expect reduced ROCm performance.",
		"amdgpu 0000:03:00.0: Runlist is getting oversubscribed due to too many queues. Expect reduced ROCm performance.",
		"amdgpu: Freeing queue vital buffer 0x7f4445000000, queue evicted",
		"amdgpu 0000:03:00.0: amdgpu: MODE1 reset", // also while the driver starts, and for a suspend
		"amdgpu 0000:03:00.0: [drm] device wedged, but recovered through reset",
		"amdgpu 0000:03:00.0: amdgpu: psp gfx command LOAD_TA(0x1) failed and response status is (0x7)",
		"amdgpu 0000:03:00.0: amdgpu: VM_CONTEXT1_PROTECTION_FAULT_ADDR   0x00000000",
		"amdgpu 0000:03:00.0: amdgpu: RAS EEPROM record 1961 is invalid, address 0x7a9000",
		"amdgpu 0000:03:00.0: amdgpu: 4 correctable hardware errors detected in umc block, no user action is needed.",
		"amdgpu 0000:03:00.0: amdgpu: SMU: valid command, bad prerequisites: index:1 param:0x0 message:x",
		"pcieport 0000:00:01.1: enabling device (0000 -> 0003)",
		"pcieport 0000:00:01.1: pciehp: Slot(0): Link Up",
		"pcieport 0000:00:01.1: AER: enabled with IRQ 28",
		"pcieport 0000:00:01.1: GPU reset begin!",
		"AMD-Vi: Event logged [IO_PAGE_FAULT device=03:00.0 domain=0x0000 address=0x10b4805a0 flags=0x0070]",
		"DMAR: [DMA Read] Request device [03:00.0] page fault (src_id: 1)",
		"usb 1-2: reset high-speed USB device number 3 using xhci_hcd",
		"nvme 0000:03:00.0: Unable to change power state from D3cold to D0, device inaccessible",
		"python3[712]: segfault at 0 ip 0 sp 0 error 4 in GPU reset begin![40+1]",
		"[drm:x [amdgpu[712]: segfault at 0 ip 0 sp 0 error 4 in ]] GPU reset begin![40+1]",
		"amdgpu: GPU res[712]: segfault at 0 ip 0 sp 0 error 4 in x",
		"traps: amdgpu: GPU res[712] trap invalid opcode",
		"amdgpu 0000:03:00.0: amdgpu:  Process GPU reset begi pid 0 thread GPU reset begi pid 0",
		"said: amdgpu 0000:03:00.0: GPU reset begin!",
		"",
	} {
		f, ok := Read(line)
		require.False(t, ok && !harmless(f), "%s: %+v", line, f)
	}
	for _, line := range []string{
		"amdgpu 0000:03:00.0: MES(1) failed to respond to msg=MISC (WAIT_REG_MEM)",
		"amdgpu 0000:03:00.0: MES(0) failed to respond to msg=INVALIDATE_TLBS",
		"amdgpu 0000:03:00.0: amdgpu: socket: 0, die: 1, 0 uncorrectable hardware errors detected in total in gfx block",
		"pcieport 0000:00:01.1: pciehp: Slot(0): Link Down/Up ignored (recovered by DPC)",
	} {
		f, ok := Read(line)
		require.True(t, ok && harmless(f), line)
	}
}

// A task chooses the names of its processes.
func FuzzRead(f *testing.F) {
	f.Add("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "python3")
	f.Add("pcieport 0000:00:01.1: AER: Corrected error received: 0000:03:00.0", "[drm:x [amdgpu]")
	f.Add("amdgpu: Process 7 (pasid 0x1) got unhandled exception", "x pid 9 thread")
	f.Fuzz(func(t *testing.T, line, name string) {
		if found, ok := Read(line); ok {
			require.True(t, found.Device == "" || pci.IsFull(found.Device), line)
			require.GreaterOrEqual(t, found.PID, 0)
		}
		name = name[:min(len(name), 15)] // TASK_COMM_LEN without its end
		for _, of := range []string{"[7]: segfault at 0 ip 0 sp 0 error 4", ": page allocation failure: order:0", " invoked oom-killer"} {
			found, _ := Read(name + of)
			require.Nil(t, found.Sign, name+of)
		}
		if !strings.ContainsAny(name, "\n\x00") {
			found, _ := Read("amdgpu 0000:03:00.0: Process information: process " + name + " pid 71 thread " + name + " pid 72")
			require.Equal(t, 71, found.PID, name)
		}
	})
}

package signs

// The folders of the sources.
const (
	amd   = "gpu/drm/amd/amdgpu/"
	kfd   = "gpu/drm/amd/amdkfd/"
	smu   = "gpu/drm/amd/pm/swsmu/"
	queue = kfd + "kfd_device_queue_manager.c"
)

// exceptions have the beginning of a sign, and are none.
var exceptions = []Sign{
	// The driver waits again, and goes on.
	{Text: "MES... failed to respond to msg=MISC (WAIT_REG_MEM)", Source: amd + "mes_v11_0.c", Meaning: Harmless},
	{Text: "MES... failed to respond to msg=INVALIDATE_TLBS", Source: amd + "mes_v12_0.c", Meaning: Harmless},
	{Text: "MES failed to response msg=14", Source: amd + "mes_v11_0.c", Meaning: Harmless}, // the number of MISC
	// A reset of the pipe or the ring follows.
	{Text: "MES... failed to respond to msg=RESET", Source: amd + "mes_v11_0.c", Meaning: Stuck},
	{Text: "0 uncorrectable hardware errors", Source: amd + "amdgpu_ras.c", Meaning: Harmless},
	{Text: "... 0 uncorrectable hardware errors", Source: amd + "amdgpu_ras.c", Meaning: Harmless},
	{Text: "0 deferred hardware errors", Source: amd + "amdgpu_ras.c", Meaning: Harmless},
	{Text: "... 0 deferred hardware errors", Source: amd + "amdgpu_ras.c", Meaning: Harmless},
	{Text: "Slot(...): Link Down/Up ignored", Source: "pci/hotplug/pciehp_hpc.c", Meaning: Harmless, Port: true},
	{Text: "GPU reset succeeded, trying to resume", Source: amd + "amdgpu_device.c", Meaning: Reset},
}

var rows = []Sign{
	// Rings, and their resets.
	{Text: "ring ... timeout, but soft recovered", Source: amd + "amdgpu_job.c", Meaning: RingReset},
	{Text: "ring ... timeout, signaled seq=", Source: amd + "amdgpu_job.c", Meaning: Stuck},
	{Text: "Starting ... ring reset", Source: amd + "amdgpu_job.c", Meaning: Stuck},
	{Text: "Ring ... reset succeeded", Source: amd + "amdgpu_job.c", Meaning: RingReset},
	{Text: "Ring ... reset fail", Source: amd + "amdgpu_job.c", Meaning: Hung},
	{Text: "The ring ... pipe reset... failed", Source: amd + "gfx_v11_0.c", Meaning: Stuck},
	{Text: "failed to wait on sdma queue reset done", Source: amd + "mes_v12_0.c", Meaning: Stuck},
	{Text: "ring ... test failed (", Source: amd + "amdgpu_ring.c", Meaning: Hung},
	{Text: "IB test failed on ", Source: amd + "amdgpu_ib.c", Meaning: Hung},
	{Text: "ib ring test failed (", Source: amd + "amdgpu_device.c", Meaning: Hung},
	{Text: "amdgpu_job_timedout - device unplugged", Source: amd + "amdgpu_job.c", Meaning: Lost},

	// The scheduler's firmware (MES), and the queues of programs.
	{Text: "MES... failed to respond to msg=", Source: amd + "mes_v11_0.c", Meaning: Hung},
	{Text: "MES failed to response msg=", Source: amd + "mes_v11_0.c", Meaning: Hung},
	{Text: "MES ring buffer is full", Source: amd + "mes_v11_0.c", Meaning: Hung},
	{Text: "MES might be in unrecoverable state", Source: queue, Meaning: Hung},
	{Text: "failed to remove hardware queue from MES", Source: queue, Meaning: Hung},
	{Text: "failed to add hardware queue to MES", Source: queue, Meaning: Hung},
	{Text: "failed to map legacy queue", Source: amd + "amdgpu_mes.c", Meaning: Hung},
	{Text: "failed to reset legacy queue", Source: amd + "amdgpu_mes.c", Meaning: Stuck},
	{Text: "failed to unmap legacy queue", Source: amd + "amdgpu_mes.c", Meaning: Hung},
	{Text: "failed to suspend all gangs", Source: amd + "amdgpu_mes.c", Meaning: Hung},
	{Text: "failed to resume all gangs", Source: amd + "amdgpu_mes.c", Meaning: Hung},
	{Text: "failed to suspend gangs from MES", Source: queue, Meaning: Hung},
	{Text: "failed to resume gangs from MES", Source: queue, Meaning: Hung},
	{Text: "Suspending all queues failed", Source: queue, Meaning: Hung},
	{Text: "Resuming all queues failed", Source: queue, Meaning: Hung},
	{Text: "HIQ MQD's queue_doorbell_id0 is not 0", Source: queue, Meaning: Stuck},
	{Text: "Queue preemption failed for queue with doorbell_id", Source: kfd + "kfd_mqd_manager.c", Meaning: Stuck},
	{Text: "XCC ...: Queue preemption failed for queue", Source: kfd + "kfd_mqd_manager.c", Meaning: Stuck},
	{Text: "qcm fence wait loop timeout expired", Source: queue, Meaning: Stuck},
	{Text: "The cp might be in an unrecoverable state", Source: queue, Meaning: Stuck},
	{Text: "queue id 0x... at pasid ... is reset", Source: queue, Meaning: RingReset},
	{Text: "cp queue preemption time out", Source: amd + "amdgpu_amdkfd_gfx_v9.c", Meaning: Hung},
	{Text: "cp queue pipe ... preemption failed", Source: amd + "amdgpu_amdkfd_gfx_v10.c", Meaning: Hung},
	{Text: "Failed to evict process queues", Source: queue, Meaning: Hung},
	{Text: "Failed to evict queue ", Source: queue, Meaning: Hung},
	{Text: "Failed to remove queue ", Source: queue, Meaning: Hung},
	{Text: "Failed to quiesce KFD", Source: amd + "amdgpu_amdkfd_gpuvm.c", Meaning: Hung},
	{Text: "Resetting wave fronts", Source: queue, Meaning: Hung},
	{Text: "timeout waiting for kiq fence", Source: amd + "amdgpu_gmc.c", Meaning: Hung},
	{Text: "wait for kiq fence error", Source: amd + "amdgpu_gmc.c", Meaning: Hung},
	{Text: "failed to write reg", Source: amd + "amdgpu_gfx.c", Meaning: Hung}, // through the KIQ
	{Text: "failed to read reg:", Source: amd + "amdgpu_gfx.c", Meaning: Hung},
	{Text: "KCQ enable failed", Source: amd + "amdgpu_gfx.c", Meaning: Hung},
	{Text: "KCQ disable failed", Source: amd + "gfx_v11_0.c", Meaning: Hung},
	{Text: "KGQ enable failed", Source: amd + "amdgpu_gfx.c", Meaning: Hung},
	{Text: "Timeout waiting for VM flush", Source: amd + "gmc_v11_0.c", Meaning: Hung},
	{Text: "Timeout waiting for sem acquire in VM flush", Source: amd + "gmc_v11_0.c", Meaning: Hung},
	{Text: "TLB flush failed for PASID", Source: amd + "amdgpu_vm_tlb_fence.c", Meaning: Hung},
	{Text: "IP block:... is hung!", Source: amd + "amdgpu_device.c", Meaning: Hung},

	// The firmware of power (SMU) and of security (PSP).
	{Text: "SMU: response:0xFFFFFFFF", Source: smu + "smu_cmn.c", Meaning: Lost},
	{Text: "Failed to send message ... response 0xffffffff", Source: "gpu/drm/amd/pm/powerplay/smumgr", Meaning: Lost},
	{Text: "SMU: I'm not done with your previous command", Source: smu + "smu_cmn.c", Meaning: Hung},
	{Text: "SMU: No response msg_reg", Source: smu + "smu_cmn.c", Meaning: Hung},
	{Text: "SMU is in hanged state", Source: smu + "smu_cmn.c", Meaning: Hung},
	{Text: "Failed to export SMU metrics table!", Source: smu + "smu13/smu_v13_0_6_ppt.c", Meaning: Hung},
	{Text: "psp reg (0x...) wait timed out", Source: amd + "amdgpu_psp.c", Meaning: Hung},
	{Text: "PSP create ring failed!", Source: amd + "amdgpu_psp.c", Meaning: Hung},
	{Text: "PSP firmware loading failed", Source: amd + "amdgpu_psp.c", Meaning: Hung},
	// Another status is a refusal, which is usual while the driver starts.
	{Text: "psp gfx command ... failed and response status is (0x0)", Source: amd + "amdgpu_psp.c", Meaning: Hung},
	{Text: "PSP resume failed", Source: amd + "amdgpu_psp.c", Meaning: Dead},

	// Resets of the whole GPU.
	{Text: "GPU reset begin!", Source: amd + "amdgpu_device.c", Meaning: Reset},
	{Text: "GPU jobs stop begin!", Source: amd + "amdgpu_device.c", Meaning: Reset},
	{Text: "VRAM is lost due to GPU reset!", Source: amd + "amdgpu_device.c", Meaning: Reset},
	{Text: "PCI error: detected callback", Source: amd + "amdgpu_device.c", Meaning: Reset},
	{Text: "GPU reset(...) succeeded!", Source: amd + "amdgpu_device.c", Meaning: Recovered},
	{Text: "GPU reset(...) failed", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "GPU reset end with ret =", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "GPU Recovery Failed", Source: amd + "amdgpu_job.c", Meaning: Dead},
	{Text: "GPU recovery disabled", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "GPU mode1 reset failed", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "GPU mode2 reset failed", Source: amd + "nv.c", Meaning: Dead},
	{Text: "Mode2 reset failed!", Source: smu + "amdgpu_smu.c", Meaning: Dead},
	{Text: "psp mode 1 reset failed!", Source: amd + "psp_v11_0.c", Meaning: Dead},
	{Text: "smu reset failed", Source: smu + "amdgpu_smu.c", Meaning: Dead},
	{Text: "ASIC reset failed with error", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "GPU pre asic reset failed", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "asic reset on init failed", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "PCIe error recovery failed", Source: amd + "amdgpu_device.c", Meaning: Dead},
	{Text: "resume of IP block <", Source: amd + "amdgpu_device.c", Meaning: Hung},
	{Text: "Fatal error during GPU init", Source: amd + "amdgpu_kms.c", Meaning: Hung},
	{Text: "device wedged, needs recovery", Source: "gpu/drm/drm_drv.c", Meaning: Hung},

	// Programs.
	{Text: "[...] page fault (src_id:", Source: amd + "gmc_v11_0.c", Meaning: Fault},
	{Text: "[...] retry page fault (src_id:", Source: amd + "gmc_v9_0.c", Meaning: Fault},
	{Text: "[...] no-retry page fault (src_id:", Source: amd + "gmc_v9_0.c", Meaning: Fault},
	{Text: "GPU fault detected:", Source: amd + "gmc_v8_0.c", Meaning: Fault},
	{Text: "Illegal register access in command stream", Source: amd + "gfx_v11_0.c", Meaning: Fault},
	{Text: "Illegal instruction in command stream", Source: amd + "gfx_v11_0.c", Meaning: Fault},
	{Text: "Illegal opcode in command stream", Source: amd + "gfx_v11_0.c", Meaning: Fault},
	{Text: "sq_intr: error", Source: kfd + "kfd_int_process_v9.c", Meaning: Fault},
	{Text: "Process ... got unhandled exception", Source: kfd + "kfd_events.c", Meaning: Fault},

	// Memory, and the links between GPUs.
	{Text: "poison is consumed by client", Source: kfd + "kfd_int_process_v9.c", Meaning: Memory},
	{Text: "GPU reset for ... RAS poison consumption is issued!", Source: amd + "amdgpu_ras.c", Meaning: Memory},
	{Text: "RAS event of type ERREVENT_ATHUB_INTERRUPT", Source: amd + "amdgpu_ras.c", Meaning: Memory},
	{Text: "Poison is created", Source: amd + "amdgpu_ras.c", Meaning: Worn},
	{Text: "Saved bad pages ... reaches threshold", Source: amd + "amdgpu_ras_eeprom.c", Meaning: Worn},
	{Text: "RAS records:... exceed", Source: amd + "amdgpu_ras_eeprom.c", Meaning: Worn},
	{Text: "socket: ... memory training failed", Source: amd + "amdgpu_ras.c", Meaning: Memory},
	{Text: "socket: ... hbm ... test failed", Source: amd + "amdgpu_ras.c", Meaning: Memory},
	{Text: "socket: ... wafl link training failed", Source: amd + "amdgpu_ras.c", Meaning: Link},
	{Text: "socket: ... xgmi link training failed", Source: amd + "amdgpu_ras.c", Meaning: Link},
	{Text: "XGMI... PCS ... detected", Source: amd + "amdgpu_xgmi.c", Meaning: Link},
	{Text: "WAFL PCS ... detected", Source: amd + "amdgpu_xgmi.c", Meaning: Link},
	{Text: "...uncorrectable hardware error", Source: amd + "amdgpu_ras.c", Meaning: Memory},
	{Text: "...deferred hardware errors", Source: amd + "amdgpu_ras.c", Meaning: Worn},

	// The PCIe link, at either end.
	{Text: "device lost from bus!", Source: amd + "amdgpu_device.c", Meaning: Lost},
	{Text: "GCVM_L2_PROTECTION_FAULT_STATUS:0xFFFFFFFF", Source: amd + "gmc_v11_0.c", Meaning: Lost},
	{Text: "Unable to change power state from ... device inaccessible", Source: "pci/pci.c", Meaning: Lost, Port: true},
	{Text: "can't change power state from ... inaccessible)", Source: "pci/pci.c", Meaning: Lost, Port: true},
	{Text: "Slot(...): Link Down", Source: "pci/hotplug/pciehp_ctrl.c", Meaning: Lost, Port: true},
	{Text: "Slot(...): Card not present", Source: "pci/hotplug/pciehp_ctrl.c", Meaning: Lost, Port: true},
	{Text: "Slot(...): Power fault", Source: "pci/hotplug/pciehp_hpc.c", Meaning: Lost, Port: true},
	{Text: "device recovery failed", Source: "pci/pcie/err.c", Meaning: Lost, Port: true},
	{Text: "containment event, status:", Source: "pci/pcie/dpc.c", Meaning: Lost, Port: true},
	{Text: "PCIe Bus Error: severity=Uncorrect... (Fatal)", Source: "pci/pcie/aer.c", Meaning: Lost, Port: true},
	{Text: "PCIe Bus Error: severity=", Source: "pci/pcie/aer.c", Meaning: Link, Port: true},
	{Text: "... error message received from ", Source: "pci/pcie/aer.c", Meaning: Link, Port: true},
	{Text: "... error received: ", Source: "pci/pcie/aer.c", Meaning: Link, Port: true},
}

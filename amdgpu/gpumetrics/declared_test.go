package gpumetrics

// declarations are the structures of kgd_pp_interface.h, after their header, in the order
// of their members: name:bytes*count, and @name*count for an array of another one. Offsets
// are not written down but follow from the alignment that C gives them, so that they check
// the tables.
var declarations = map[string]string{
	"v1_0": `
		system_clock_counter:8 temperature_edge:2 temperature_hotspot:2 temperature_mem:2 temperature_vrgfx:2
		temperature_vrsoc:2 temperature_vrmem:2 average_gfx_activity:2 average_umc_activity:2 average_mm_activity:2
		average_socket_power:2 energy_accumulator:4 average_gfxclk_frequency:2 average_socclk_frequency:2
		average_uclk_frequency:2 average_vclk0_frequency:2 average_dclk0_frequency:2 average_vclk1_frequency:2
		average_dclk1_frequency:2 current_gfxclk:2 current_socclk:2 current_uclk:2 current_vclk0:2 current_dclk0:2
		current_vclk1:2 current_dclk1:2 throttle_status:4 current_fan_speed:2 pcie_link_width:1 pcie_link_speed:1`,
	"v1_1": `
		temperature_edge:2 temperature_hotspot:2 temperature_mem:2 temperature_vrgfx:2 temperature_vrsoc:2
		temperature_vrmem:2 average_gfx_activity:2 average_umc_activity:2 average_mm_activity:2
		average_socket_power:2 energy_accumulator:8 system_clock_counter:8 average_gfxclk_frequency:2
		average_socclk_frequency:2 average_uclk_frequency:2 average_vclk0_frequency:2 average_dclk0_frequency:2
		average_vclk1_frequency:2 average_dclk1_frequency:2 current_gfxclk:2 current_socclk:2 current_uclk:2
		current_vclk0:2 current_dclk0:2 current_vclk1:2 current_dclk1:2 throttle_status:4 current_fan_speed:2
		pcie_link_width:2 pcie_link_speed:2 padding:2 gfx_activity_acc:4 mem_activity_acc:4 temperature_hbm:2*4`,
	"v1_2": `
		temperature_edge:2 temperature_hotspot:2 temperature_mem:2 temperature_vrgfx:2 temperature_vrsoc:2
		temperature_vrmem:2 average_gfx_activity:2 average_umc_activity:2 average_mm_activity:2
		average_socket_power:2 energy_accumulator:8 system_clock_counter:8 average_gfxclk_frequency:2
		average_socclk_frequency:2 average_uclk_frequency:2 average_vclk0_frequency:2 average_dclk0_frequency:2
		average_vclk1_frequency:2 average_dclk1_frequency:2 current_gfxclk:2 current_socclk:2 current_uclk:2
		current_vclk0:2 current_dclk0:2 current_vclk1:2 current_dclk1:2 throttle_status:4 current_fan_speed:2
		pcie_link_width:2 pcie_link_speed:2 padding:2 gfx_activity_acc:4 mem_activity_acc:4 temperature_hbm:2*4
		firmware_timestamp:8`,
	"v1_3": `
		temperature_edge:2 temperature_hotspot:2 temperature_mem:2 temperature_vrgfx:2 temperature_vrsoc:2
		temperature_vrmem:2 average_gfx_activity:2 average_umc_activity:2 average_mm_activity:2
		average_socket_power:2 energy_accumulator:8 system_clock_counter:8 average_gfxclk_frequency:2
		average_socclk_frequency:2 average_uclk_frequency:2 average_vclk0_frequency:2 average_dclk0_frequency:2
		average_vclk1_frequency:2 average_dclk1_frequency:2 current_gfxclk:2 current_socclk:2 current_uclk:2
		current_vclk0:2 current_dclk0:2 current_vclk1:2 current_dclk1:2 throttle_status:4 current_fan_speed:2
		pcie_link_width:2 pcie_link_speed:2 padding:2 gfx_activity_acc:4 mem_activity_acc:4 temperature_hbm:2*4
		firmware_timestamp:8 voltage_soc:2 voltage_gfx:2 voltage_mem:2 padding1:2 indep_throttle_status:8`,
	"v1_4": `
		temperature_hotspot:2 temperature_mem:2 temperature_vrsoc:2 curr_socket_power:2 average_gfx_activity:2
		average_umc_activity:2 vcn_activity:2*4 energy_accumulator:8 system_clock_counter:8 throttle_status:4
		gfxclk_lock_status:4 pcie_link_width:2 pcie_link_speed:2 xgmi_link_width:2 xgmi_link_speed:2
		gfx_activity_acc:4 mem_activity_acc:4 pcie_bandwidth_acc:8 pcie_bandwidth_inst:8
		pcie_l0_to_recov_count_acc:8 pcie_replay_count_acc:8 pcie_replay_rover_count_acc:8 xgmi_read_data_acc:8*8
		xgmi_write_data_acc:8*8 firmware_timestamp:8 current_gfxclk:2*8 current_socclk:2*4 current_vclk0:2*4
		current_dclk0:2*4 current_uclk:2 padding:2`,
	"v1_5": `
		temperature_hotspot:2 temperature_mem:2 temperature_vrsoc:2 curr_socket_power:2 average_gfx_activity:2
		average_umc_activity:2 vcn_activity:2*4 jpeg_activity:2*32 energy_accumulator:8 system_clock_counter:8
		throttle_status:4 gfxclk_lock_status:4 pcie_link_width:2 pcie_link_speed:2 xgmi_link_width:2
		xgmi_link_speed:2 gfx_activity_acc:4 mem_activity_acc:4 pcie_bandwidth_acc:8 pcie_bandwidth_inst:8
		pcie_l0_to_recov_count_acc:8 pcie_replay_count_acc:8 pcie_replay_rover_count_acc:8 pcie_nak_sent_count_acc:4
		pcie_nak_rcvd_count_acc:4 xgmi_read_data_acc:8*8 xgmi_write_data_acc:8*8 firmware_timestamp:8
		current_gfxclk:2*8 current_socclk:2*4 current_vclk0:2*4 current_dclk0:2*4 current_uclk:2 padding:2`,
	"v1_6": `
		temperature_hotspot:2 temperature_mem:2 temperature_vrsoc:2 curr_socket_power:2 average_gfx_activity:2
		average_umc_activity:2 energy_accumulator:8 system_clock_counter:8 accumulation_counter:4
		prochot_residency_acc:4 ppt_residency_acc:4 socket_thm_residency_acc:4 vr_thm_residency_acc:4
		hbm_thm_residency_acc:4 gfxclk_lock_status:4 pcie_link_width:2 pcie_link_speed:2 xgmi_link_width:2
		xgmi_link_speed:2 gfx_activity_acc:4 mem_activity_acc:4 pcie_bandwidth_acc:8 pcie_bandwidth_inst:8
		pcie_l0_to_recov_count_acc:8 pcie_replay_count_acc:8 pcie_replay_rover_count_acc:8 pcie_nak_sent_count_acc:4
		pcie_nak_rcvd_count_acc:4 xgmi_read_data_acc:8*8 xgmi_write_data_acc:8*8 firmware_timestamp:8
		current_gfxclk:2*8 current_socclk:2*4 current_vclk0:2*4 current_dclk0:2*4 current_uclk:2 num_partition:2
		@xcp*8 pcie_lc_perf_other_end_recovery:4`,
	"v1_7": `
		temperature_hotspot:2 temperature_mem:2 temperature_vrsoc:2 curr_socket_power:2 average_gfx_activity:2
		average_umc_activity:2 mem_max_bandwidth:8 energy_accumulator:8 system_clock_counter:8
		accumulation_counter:4 prochot_residency_acc:4 ppt_residency_acc:4 socket_thm_residency_acc:4
		vr_thm_residency_acc:4 hbm_thm_residency_acc:4 gfxclk_lock_status:4 pcie_link_width:2 pcie_link_speed:2
		xgmi_link_width:2 xgmi_link_speed:2 gfx_activity_acc:4 mem_activity_acc:4 pcie_bandwidth_acc:8
		pcie_bandwidth_inst:8 pcie_l0_to_recov_count_acc:8 pcie_replay_count_acc:8 pcie_replay_rover_count_acc:8
		pcie_nak_sent_count_acc:4 pcie_nak_rcvd_count_acc:4 xgmi_read_data_acc:8*8 xgmi_write_data_acc:8*8
		xgmi_link_status:2*8 padding:2 firmware_timestamp:8 current_gfxclk:2*8 current_socclk:2*4 current_vclk0:2*4
		current_dclk0:2*4 current_uclk:2 num_partition:2 @xcp_v1_1*8 pcie_lc_perf_other_end_recovery:4`,
	"v1_8": `
		temperature_hotspot:2 temperature_mem:2 temperature_vrsoc:2 curr_socket_power:2 average_gfx_activity:2
		average_umc_activity:2 mem_max_bandwidth:8 energy_accumulator:8 system_clock_counter:8
		accumulation_counter:4 prochot_residency_acc:4 ppt_residency_acc:4 socket_thm_residency_acc:4
		vr_thm_residency_acc:4 hbm_thm_residency_acc:4 gfxclk_lock_status:4 pcie_link_width:2 pcie_link_speed:2
		xgmi_link_width:2 xgmi_link_speed:2 gfx_activity_acc:4 mem_activity_acc:4 pcie_bandwidth_acc:8
		pcie_bandwidth_inst:8 pcie_l0_to_recov_count_acc:8 pcie_replay_count_acc:8 pcie_replay_rover_count_acc:8
		pcie_nak_sent_count_acc:4 pcie_nak_rcvd_count_acc:4 xgmi_read_data_acc:8*8 xgmi_write_data_acc:8*8
		xgmi_link_status:2*8 padding:2 firmware_timestamp:8 current_gfxclk:2*8 current_socclk:2*4 current_vclk0:2*4
		current_dclk0:2*4 current_uclk:2 num_partition:2 @xcp_v1_2*8 pcie_lc_perf_other_end_recovery:4`,
	"xcp": `
		gfx_busy_inst:4*8 jpeg_busy:2*32 vcn_busy:2*4 gfx_busy_acc:8*8`,
	"xcp_v1_1": `
		gfx_busy_inst:4*8 jpeg_busy:2*32 vcn_busy:2*4 gfx_busy_acc:8*8 gfx_below_host_limit_acc:8*8`,
	"xcp_v1_2": `
		gfx_busy_inst:4*8 jpeg_busy:2*40 vcn_busy:2*4 gfx_busy_acc:8*8 gfx_below_host_limit_ppt_acc:8*8
		gfx_below_host_limit_thm_acc:8*8 gfx_low_utilization_acc:8*8 gfx_below_host_limit_total_acc:8*8`,
	"partition": `
		current_gfxclk:2*8 current_socclk:2*4 current_vclk0:2*4 current_dclk0:2*4 current_uclk:2 padding:2
		gfx_busy_inst:4*8 jpeg_busy:2*40 vcn_busy:2*4 gfx_busy_acc:8*8 gfx_below_host_limit_ppt_acc:8*8
		gfx_below_host_limit_thm_acc:8*8 gfx_low_utilization_acc:8*8 gfx_below_host_limit_total_acc:8*8`,
}

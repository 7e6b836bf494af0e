package gpumetrics

// apuDeclarations are the declarations for APUs; see declarations.
var apuDeclarations = map[string]string{
	"v2_0": `
		system_clock_counter:8 temperature_gfx:2 temperature_soc:2 temperature_core:2*8 temperature_l3:2*2
		average_gfx_activity:2 average_mm_activity:2 average_socket_power:2 average_cpu_power:2 average_soc_power:2
		average_gfx_power:2 average_core_power:2*8 average_gfxclk_frequency:2 average_socclk_frequency:2
		average_uclk_frequency:2 average_fclk_frequency:2 average_vclk_frequency:2 average_dclk_frequency:2
		current_gfxclk:2 current_socclk:2 current_uclk:2 current_fclk:2 current_vclk:2 current_dclk:2
		current_coreclk:2*8 current_l3clk:2*2 throttle_status:4 fan_pwm:2 padding:2`,
	"v2_1": `
		temperature_gfx:2 temperature_soc:2 temperature_core:2*8 temperature_l3:2*2 average_gfx_activity:2
		average_mm_activity:2 system_clock_counter:8 average_socket_power:2 average_cpu_power:2 average_soc_power:2
		average_gfx_power:2 average_core_power:2*8 average_gfxclk_frequency:2 average_socclk_frequency:2
		average_uclk_frequency:2 average_fclk_frequency:2 average_vclk_frequency:2 average_dclk_frequency:2
		current_gfxclk:2 current_socclk:2 current_uclk:2 current_fclk:2 current_vclk:2 current_dclk:2
		current_coreclk:2*8 current_l3clk:2*2 throttle_status:4 fan_pwm:2 padding:2*3`,
	"v2_2": `
		temperature_gfx:2 temperature_soc:2 temperature_core:2*8 temperature_l3:2*2 average_gfx_activity:2
		average_mm_activity:2 system_clock_counter:8 average_socket_power:2 average_cpu_power:2 average_soc_power:2
		average_gfx_power:2 average_core_power:2*8 average_gfxclk_frequency:2 average_socclk_frequency:2
		average_uclk_frequency:2 average_fclk_frequency:2 average_vclk_frequency:2 average_dclk_frequency:2
		current_gfxclk:2 current_socclk:2 current_uclk:2 current_fclk:2 current_vclk:2 current_dclk:2
		current_coreclk:2*8 current_l3clk:2*2 throttle_status:4 fan_pwm:2 padding:2*3 indep_throttle_status:8`,
	"v2_3": `
		temperature_gfx:2 temperature_soc:2 temperature_core:2*8 temperature_l3:2*2 average_gfx_activity:2
		average_mm_activity:2 system_clock_counter:8 average_socket_power:2 average_cpu_power:2 average_soc_power:2
		average_gfx_power:2 average_core_power:2*8 average_gfxclk_frequency:2 average_socclk_frequency:2
		average_uclk_frequency:2 average_fclk_frequency:2 average_vclk_frequency:2 average_dclk_frequency:2
		current_gfxclk:2 current_socclk:2 current_uclk:2 current_fclk:2 current_vclk:2 current_dclk:2
		current_coreclk:2*8 current_l3clk:2*2 throttle_status:4 fan_pwm:2 padding:2*3 indep_throttle_status:8
		average_temperature_gfx:2 average_temperature_soc:2 average_temperature_core:2*8 average_temperature_l3:2*2`,
	"v2_4": `
		temperature_gfx:2 temperature_soc:2 temperature_core:2*8 temperature_l3:2*2 average_gfx_activity:2
		average_mm_activity:2 system_clock_counter:8 average_socket_power:2 average_cpu_power:2 average_soc_power:2
		average_gfx_power:2 average_core_power:2*8 average_gfxclk_frequency:2 average_socclk_frequency:2
		average_uclk_frequency:2 average_fclk_frequency:2 average_vclk_frequency:2 average_dclk_frequency:2
		current_gfxclk:2 current_socclk:2 current_uclk:2 current_fclk:2 current_vclk:2 current_dclk:2
		current_coreclk:2*8 current_l3clk:2*2 throttle_status:4 fan_pwm:2 padding:2*3 indep_throttle_status:8
		average_temperature_gfx:2 average_temperature_soc:2 average_temperature_core:2*8 average_temperature_l3:2*2
		average_cpu_voltage:2 average_soc_voltage:2 average_gfx_voltage:2 average_cpu_current:2
		average_soc_current:2 average_gfx_current:2`,
	"v3_0": `
		temperature_gfx:2 temperature_soc:2 temperature_core:2*16 temperature_skin:2 average_gfx_activity:2
		average_vcn_activity:2 average_ipu_activity:2*8 average_core_c0_activity:2*16 average_dram_reads:2
		average_dram_writes:2 average_ipu_reads:2 average_ipu_writes:2 system_clock_counter:8 average_socket_power:4
		average_ipu_power:2 average_apu_power:4 average_gfx_power:4 average_dgpu_power:4 average_all_core_power:4
		average_core_power:2*16 average_sys_power:2 stapm_power_limit:2 current_stapm_power_limit:2
		average_gfxclk_frequency:2 average_socclk_frequency:2 average_vpeclk_frequency:2 average_ipuclk_frequency:2
		average_fclk_frequency:2 average_vclk_frequency:2 average_uclk_frequency:2 average_mpipu_frequency:2
		current_coreclk:2*16 current_core_maxfreq:2 current_gfx_maxfreq:2 throttle_residency_prochot:4
		throttle_residency_spl:4 throttle_residency_fppt:4 throttle_residency_sppt:4 throttle_residency_thm_core:4
		throttle_residency_thm_gfx:4 throttle_residency_thm_soc:4 time_filter_alphavalue:4`,
}

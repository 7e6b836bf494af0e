package config

import (
	"fmt"
	"strings"
)

// gpuOptions are how tasks get GPUs, and how those are watched.
func gpuOptions() []Option {
	return []Option{
		text("compute-runtime", "none", func(c *Config, s string) error {
			c.ComputeRuntime = s
			return oneOf(s, "none", "auto", "cuda", "rocm")
		}),
		boolean("enable-gpu", false, func(c *Config, on bool) {
			if on && c.ComputeRuntime == "none" {
				c.ComputeRuntime = "auto"
			}
		}),
		text("gpu-device-ids", "all", func(c *Config, s string) error { c.GPUDeviceIDs = s; return nil }),
		text("hsa-override-gfx-version", "", func(c *Config, s string) error {
			c.HSAOverride = s
			if s != "" && s != "auto" && !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not empty, auto or a version like 11.0.0", s)
			}
			return nil
		}),
		text("task-env", "", func(c *Config, s string) (err error) { c.TaskEnv, err = environment(s); return err }),
		text("amd-container-toolkit", "auto", func(c *Config, s string) error {
			c.Toolkit = s
			return oneOf(s, "auto", "required", "skip")
		}),
		text("amd-container-toolkit-version", "1.2.0", func(c *Config, s string) error {
			c.ToolkitVersion = s
			if !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not a version like 1.2.0", s)
			}
			return nil
		}),
		text("rocm-base-url", "", func(c *Config, s string) error {
			c.ROCmBaseURL = strings.TrimRight(s, "/")
			return httpURL(s)
		}),
		boolean("exporter-dcgm-aliases", false, func(c *Config, on bool) { c.DCGMAliases = on }),
	}
}

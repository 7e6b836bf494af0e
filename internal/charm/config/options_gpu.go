package config

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/pool/tasknotice"
)

// computeRuntimes returns the values of compute-runtime.
func computeRuntimes() []ComputeRuntime {
	all := []ComputeRuntime{RuntimeNone, RuntimeAuto}
	for _, name := range gpu.Runtimes() {
		all = append(all, ComputeRuntime(name))
	}
	return all
}

// gpuOptions returns the options about GPUs of tasks and their watcher.
func gpuOptions() []Option {
	return []Option{
		choice("compute-runtime", func(c *Config) *ComputeRuntime { return &c.GPU.ComputeRuntime },
			computeRuntimes()...),
		boolean("enable-gpu", false, func(c *Config, on bool) {
			if on && c.GPU.ComputeRuntime == RuntimeNone {
				c.GPU.ComputeRuntime = RuntimeAuto
			}
		}),
		text("gpu-device-ids", "all", func(c *Config, s string) error { c.GPU.DeviceIDs = s; return nil }),
		choice("gpu-sharing", func(c *Config) *Sharing { return &c.GPU.Sharing }, Shared, Exclusive),
		boolean("gpu-bench", false, func(c *Config, on bool) { c.GPU.Bench = on }),
		boolean("gpu-tools", true, func(c *Config, on bool) { c.GPU.Tools = on }),
		text("container-engines", "", func(c *Config, s string) (err error) {
			c.GPU.ContainerEngines, err = list(s, func(name string) error {
				return oneOf(name, "docker", "podman",
					"containerd", "crio")
			})
			return err
		}),
		choice("kubernetes", func(c *Config) *Kubernetes { return &c.GPU.Kubernetes }, KubernetesAuto, KubernetesOff),
		choice("gpu-quarantine", func(c *Config) *quarantine.Policy { return &c.GPU.Quarantine }, quarantine.Auto,
			quarantine.Manual, quarantine.Off),
		text("gpu-proof", "", func(c *Config, s string) error { c.GPU.Proof = s; return proofPath(s) }),
		choice("gpu-hang-action", func(c *Config) *tasknotice.Action { return &c.GPU.HangAction }, tasknotice.Write,
			tasknotice.EndTask),
		choice("gpu-leftovers", func(c *Config) *Leftovers { return &c.GPU.Leftovers }, LeftoversEnd, LeftoversKeep),
		text("hsa-override-gfx-version", "", func(c *Config, s string) error {
			c.GPU.HSAOverrideGFXVersion = s
			if s != "" && s != "auto" && !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not empty, auto or a version like 11.0.0", s)
			}
			return nil
		}),
		text("hip-arches", "", func(c *Config, s string) (err error) { c.GPU.HIPArches, err = hipArches(s); return err }),
		text("task-env", "", func(c *Config, s string) (err error) { c.GPU.TaskEnv, err = environment(s); return err }),
		choice("amd-container-toolkit", func(c *Config) *amd.ToolkitMode { return &c.Driver.AMDContainerToolkit },
			amd.ToolkitAuto, amd.ToolkitRequired, amd.ToolkitSkip),
		text("amd-container-toolkit-version", "", func(c *Config, s string) error {
			c.Driver.AMDContainerToolkitVersion = s
			if s != "" && !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not empty or a version like 1.2.0", s)
			}
			return nil
		}),
		text("rocm-base-url", "", func(c *Config, s string) error {
			c.Driver.ROCmBaseURL = strings.TrimRight(s, "/")
			return httpURL(s)
		}),
		text("rocm-version", "", func(c *Config, s string) error { c.Driver.ROCmVersion = s; return rocmVersion(s) }),
		text("rocm-usecases", "", func(c *Config, s string) (err error) {
			c.Driver.ROCmUsecases, err = list(s, usecase)
			return err
		}),
		text("rocm-tools", "none", func(c *Config, s string) error {
			c.Driver.ROCmTools = s
			return oneOf(s, "none", "smi")
		}),
		choice("install-driver", func(c *Config) *amd.InstallDriver { return &c.Driver.InstallDriver },
			amd.DriverAuto, amd.DriverAlways, amd.DriverNever),
		boolean("allow-driver-change", false, func(c *Config, on bool) { c.Driver.AllowDriverChange = on }),
		boolean("allow-reboot", false, func(c *Config, on bool) { c.Driver.AllowReboot = on }),
		text("amdgpu-module-params", "", func(c *Config, s string) (err error) {
			c.Driver.AMDGPUModuleParams, err = moduleParams(s)
			return err
		}),
		choice("gpu-device-mode", func(c *Config) *amd.DeviceMode { return &c.Driver.GPUDeviceMode },
			amd.ModeGroup, amd.ModeAll),
		integer("min-disk-gb", 20, 0, 100_000, func(c *Config, n int) error {
			c.Driver.MinDisk = uint64(n) * gigabyte
			return nil
		}),
		integer("min-ram-gb", 4, 0, 100_000, func(c *Config, n int) error {
			c.Driver.MinRAM = uint64(n) * gigabyte
			return nil
		}),
		text("nvidia-container-toolkit-version", "", func(c *Config, s string) error {
			c.Driver.NVIDIAContainerToolkitVersion = s
			if s != "" && !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not empty or a version like 1.17.8", s)
			}
			return nil
		}),
		boolean("exporter-dcgm-aliases", false, func(c *Config, on bool) { c.Exporter.DCGMAliases = on }),
		boolean("exporter-pcie-bandwidth", true, func(c *Config, on bool) { c.Exporter.PCIeBandwidth = on }),
		boolean("exporter-usage", true, func(c *Config, on bool) { c.Exporter.Usage = on }),
	}
}

// gigabyte is the decimal unit of disks and memory.
const gigabyte = 1_000_000_000

// usecases lists the use cases of AMD's packages for user space without a desktop. dkms is
// the kernel driver, which belongs to install-driver.
var usecases = []string{"rocm", "rocmdevtools", "lrt", "hip", "hiplibsdk", "opencl", "openclsdk", "openmpsdk",
	"mllib", "mlsdk"}

func usecase(s string) error {
	if s == "dkms" {
		return fmt.Errorf("%q is the kernel driver: set install-driver=always instead", s)
	}
	return oneOf(s, usecases...)
}

func rocmVersion(s string) error {
	if s != "" && !versionForm.MatchString(s) {
		return fmt.Errorf("%q is not empty or a version like 7.2.3; the action rocm-matrix lists them", s)
	}
	return nil
}

var moduleParam = regexp.MustCompile(`^[a-z][a-z0-9_]*=[A-Za-z0-9_.,:;+-]+$`)

// moduleParams reads name=value words for one line of modprobe.d(5). They have no quotes
// and one space between them.
func moduleParams(s string) (string, error) {
	words := strings.Fields(s)
	for _, w := range words {
		if !moduleParam.MatchString(w) {
			return "", fmt.Errorf("%q is not a parameter of amdgpu like gpu_recovery=1; modinfo -p amdgpu lists them",
				w)
		}
	}
	return strings.Join(words, " "), nil
}

// proofPath checks the option gpu-proof. The container of the health check has the path at
// the same place: it mounts /opt, /usr and one folder of /srv, see package healthcheck. The
// file itself is checked when it runs.
func proofPath(s string) error {
	if s == "" {
		return nil
	}
	if !printable(s) {
		return errLine
	}
	below, folder := strings.Split(s, "/"), ""
	if len(below) > 2 {
		folder = below[2]
	}
	switch {
	case !path.IsAbs(s) || path.Clean(s) != s:
		return fmt.Errorf("%q is not the absolute path of a file, without . and .. and doubled slashes", s)
	case strings.HasPrefix(s, "/opt/") || strings.HasPrefix(s, "/usr/"):
		return nil
	case below[1] != "srv" || len(below) < 4:
		return fmt.Errorf("%q is not in the proof's container; want a file below /opt, /usr or a folder of "+
			"/srv, such as /srv/tools/gpu-proof", s)
	case folder[0] == '.':
		return fmt.Errorf("%q is in a hidden folder of /srv; take another one", s)
	case strings.HasSuffix(folder, "_rw") || strings.HasSuffix(folder, "_writable"):
		return fmt.Errorf("tasks can write to /srv/%s, and would say what proves a GPU; put the program into a "+
			"folder whose name ends otherwise", folder)
	}
	return nil
}

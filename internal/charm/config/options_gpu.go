package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
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
		boolean("gpu-fixed-clocks", false, func(c *Config, on bool) { c.GPU.FixedClocks = on }),
		text("container-engines", "", func(c *Config, s string) (err error) {
			c.GPU.ContainerEngines, err = list(s, func(name string) error {
				return oneOf(name, "docker", "podman", "containerd", "crio")
			})
			return err
		}),
		choice("kubernetes", func(c *Config) *Kubernetes { return &c.GPU.Kubernetes }, KubernetesAuto,
			KubernetesClaims, KubernetesOff),
		choice("gpu-quarantine", func(c *Config) *quarantine.Policy { return &c.GPU.Quarantine }, quarantine.Auto,
			quarantine.Reset, quarantine.Manual, quarantine.Off),
		text("gpu-health-check", "",
			func(c *Config, s string) error { c.GPU.HealthCheck = s; return healthCheckPath(s) }),
		text("task-env", "", func(c *Config, s string) (err error) {
			if c.GPU.TaskEnv, err = environment(s); err == nil {
				c.GPU.HSAOverrideAuto, err = amdEnvironment(c.GPU.TaskEnv)
			}
			return err
		}),
		text("amd-container-toolkit", string(amd.ToolkitAuto), func(c *Config, s string) error {
			c.Driver.AMDContainerToolkit = amd.ToolkitMode(s)
			if versionForm().MatchString(s) {
				c.Driver.AMDContainerToolkit, c.Driver.AMDToolkitVersion = amd.ToolkitAuto, s
				return nil
			}
			if oneOf(c.Driver.AMDContainerToolkit, amd.ToolkitAuto, amd.ToolkitRequired, amd.ToolkitSkip) != nil {
				return fmt.Errorf("%q is not auto, required, skip or a version such as 1.3.0", s)
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
		choice("install-driver", func(c *Config) *amd.InstallDriver { return &c.Driver.InstallDriver },
			amd.DriverAuto, amd.DriverAlways, amd.DriverReplace, amd.DriverNever),
		boolean("allow-reboot", false, func(c *Config, on bool) { c.Driver.AllowReboot = on }),
		text("amdgpu-module-params", "", func(c *Config, s string) (err error) {
			c.Driver.AMDGPUModuleParams, err = moduleParams(s)
			return err
		}),
		text("nvidia-container-toolkit", "auto", func(c *Config, s string) error {
			c.Driver.NVIDIAContainerToolkit = ""
			if s == "auto" {
				return nil
			}
			c.Driver.NVIDIAContainerToolkit = s
			if !versionForm().MatchString(s) {
				return fmt.Errorf("%q is not auto or a version such as 1.17.8", s)
			}
			return nil
		}),
		text("gpu-metrics", "usage", func(c *Config, s string) error {
			const usage, pcie, dcgm = "usage", "pcie-bandwidth", "dcgm-aliases"
			all, err := list(s, func(m string) error { return oneOf(m, usage, pcie, dcgm) })
			c.GPU.Metrics = Metrics{Usage: slices.Contains(all, usage), PCIeBandwidth: slices.Contains(all, pcie),
				DCGMAliases: slices.Contains(all, dcgm)}
			return err
		}),
	}
}

// usecases lists the use cases of AMD's packages for user space without a desktop. dkms is
// the kernel driver, which belongs to install-driver.
var usecases = []string{"rocm", "rocmdevtools", "lrt", "hip", "hiplibsdk", "opencl", "openclsdk", "openmpsdk",
	"mllib", "mlsdk", amd.UsecaseSMI}

func usecase(s string) error {
	if s == "dkms" {
		return fmt.Errorf("%q is the kernel driver: set install-driver=always instead", s)
	}
	return oneOf(s, usecases...)
}

func rocmVersion(s string) error {
	if s != "" && !versionForm().MatchString(s) {
		return fmt.Errorf("%q is not empty or a version like 7.2.3; the action rocm-matrix lists them", s)
	}
	return nil
}

var moduleParam = lazyregexp.New(`^[a-z][a-z0-9_]*=[A-Za-z0-9_.,:;+-]+$`)

// moduleParams reads name=value words for one line of modprobe.d(5). They have no quotes
// and one space between them.
func moduleParams(s string) (string, error) {
	words := strings.Fields(s)
	for _, w := range words {
		if !moduleParam().MatchString(w) {
			return "", fmt.Errorf("%q is not a parameter of amdgpu like gpu_recovery=1; modinfo -p amdgpu lists them",
				w)
		}
	}
	return strings.Join(words, " "), nil
}

// healthCheckPath checks the option gpu-health-check. The container of the health check has the path at
// the same place: it mounts /opt, /usr and one folder of /srv, see package healthcheck. The
// file itself is checked when it runs.
func healthCheckPath(s string) error {
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
		return fmt.Errorf("%q is not in its container; want a file below /opt, /usr or a folder of /srv", s)
	case folder[0] == '.':
		return fmt.Errorf("%q is in a hidden folder of /srv; take another one", s)
	case strings.HasSuffix(folder, "_rw") || strings.HasSuffix(folder, "_writable"):
		return fmt.Errorf("tasks can write to /srv/%s; put the program into another folder", folder)
	}
	return nil
}

// Package config parses the options of the charm. A table names each option, its type and
// default, and checks its value. Parse reports all problems at once. The package never
// decides what an option does, except for options that are one environment variable of
// Concourse.
package config

import (
	"slices"
	"strings"
	"time"
)

// Config holds the charm's options after validation.
type Config struct {
	Mode          string // auto, web, worker
	Version       string // "" or x.y.z
	AutoUpgrade   bool
	GitHubToken   string // a secret
	ReleaseMirror string
	ReleaseSHA256 string // "" or 64 lower-case hex digits
	SharedStorage string // none, lxc
	LogLevel      string // debug, info, error, fatal: the levels of Concourse
	HTTPProxy     string // may hold a password: never logged
	HTTPSProxy    string // may hold a password: never logged
	NoProxy       string

	WebPort              int
	ExternalURL          string // "" or without a trailing slash
	PrometheusURL        string // Prometheus server for gpu-usage; "" for none
	TLSEnabled           bool
	TLSPort              int
	InitialAdminUsername string
	MainTeamLocalUser    string      // "" or names with commas between them
	ExtraLocalUsers      string      // a secret: "" or name:password pairs with commas between them
	EncryptionKey        string      // a secret: "" or 16 or 32 bytes
	EnableMetrics        bool        // of Concourse, and of its jobs
	ExtraWorkerKeys      []WorkerKey // of workers without this charm
	ExtraWebFlags        []string    // each --flag or --flag=value, without quotes
	RequiredArchs        []string    // such as gfx942: each once, in order
	GPURerun             bool        // rerun steps after their worker or its GPUs have disappeared
	LimitGPUTasks        bool        // limit the tasks of each worker to the GPUs of one worker

	Tags                       []string
	ComputeRuntime             string // none, auto, cuda, rocm; includes enable-gpu
	GPUDeviceIDs               string // not parsed; see internal/gpu.Select
	GPUSharing                 Sharing
	GPUBench                   bool     // tasks that measure may get fixed clocks
	GPUTools                   bool     // tasks on units with GPUs get the charm's GPU programs
	ContainerEngines           []string // other engines that get the wrapper as a runtime
	Kubernetes                 string   // auto, off: offer the GPUs to this machine's kubelet
	GPUHangAction              string   // write, end-task: action for tasks with a hanging GPU
	GPULeftovers               string   // end, keep: processes of ended tasks on leased GPUs
	GPUQuarantine              string   // auto, manual, off: who can quarantine a GPU
	GPUProof                   string   // "" or the path of the program that checks a GPU before its return
	HSAOverrideGFXVersion      string   // "", auto or 11.0.0
	HIPArches                  []string // build targets of tasks, such as gfx90a:xnack-: each once, in order
	TaskEnv                    map[string]string
	SrvFolders                 []string // of /srv; nil means all, unless NoSrvFolders
	NoSrvFolders               bool
	SrvFoldersContainers       string // tasks, all
	AMDContainerToolkit        string // auto, required, skip
	AMDContainerToolkitVersion string
	ROCmBaseURL                string
	ROCmVersion                string   // "" or x.y.z: a row of internal/gpu/amd's table
	ROCmUsecases               []string // use cases of AMD's packages, for the unit itself
	ROCmTools                  string   // none, smi
	// Limits of the charm for changes of the kernel driver.
	InstallDriver                 string // auto, always, never
	AllowDriverChange             bool
	AllowReboot                   bool
	AMDGPUModuleParams            string // name=value words of amdgpu with one space between them
	GPUDeviceMode                 string // 0660, 0666
	MinDisk, MinRAM               uint64 // bytes; 0 for no check
	NVIDIAContainerToolkitVersion string // "" or x.y.z
	ExporterDCGMAliases           bool
	ExporterPCIeBandwidth         bool // measure it for each GPU
	ExporterUsage                 bool // find out which processes use each GPU
	ContainerdDNSProxy            bool
	ContainerdDNSServers          []string
	WorkerDrainTimeout            time.Duration

	// Environment of Concourse, from options that are exactly one variable. No value is
	// empty. Some are secrets.
	WebEnv         map[string]string // concourse web, without Vault's
	VaultEnv       map[string]string // of concourse web, for Vault
	RegistryMirror registryMirror    // of Docker Hub; Host is "" for none
	RegistryCA     string            // PEM

	// Files has texts by environment variable. The value of the variable must be the path
	// of a file with the text. Its variables are not in the maps above.
	Files map[string]string

	Notes     []string // remarks for the operator that are not problems
	LDAPNotes []string // remarks that apply only without the relation ldap
}

// Sharing names a value of gpu-sharing.
type Sharing string

const (
	Shared    Sharing = "shared"
	Exclusive Sharing = "exclusive" // no two tasks use a GPU at the same time
)

// Problem describes an invalid value of an option.
type Problem struct {
	Option string
	Text   string // without the option's name
}

func (p Problem) String() string { return p.Option + ": " + p.Text }

// Parse reads the output of config-get, with the secrets of SecretURIs. An option without a
// value has its default. The Config is complete only if there are no problems.
func Parse(raw map[string]any, secrets Secrets) (Config, []Problem) {
	var c Config
	var problems []Problem
	set := settings{}
	options := Options()
	for _, o := range options {
		v, err := o.value(raw, secrets)
		if err == nil {
			err = o.set(&c, v)
		}
		if err != nil {
			problems = append(problems, Problem{o.Name, err.Error()})
		}
		set[o.Name] = err != nil || v != o.Default
	}
	return c, append(problems, check(&c, options, set)...)
}

// WithDefaults returns the Config with the default of each option that has a problem. A
// unit that ends needs it.
func (c Config) WithDefaults(problems []Problem) Config {
	for _, o := range Options() {
		if slices.ContainsFunc(problems, func(p Problem) bool { return p.Option == o.Name }) {
			_ = o.set(&c, o.Default) // a default is always valid
		}
	}
	return c
}

// value returns the option's value before its check. Text has no white space around it, and
// the URI of a secret is replaced with the secret's value.
func (o Option) value(raw map[string]any, secrets Secrets) (any, error) {
	v, ok := raw[o.Name]
	if !ok || v == nil {
		return o.Default, nil
	}
	s, ok := v.(string)
	if !ok {
		if _, count := o.Default.(int); count {
			if n, ok := whole(v); ok {
				v = n // JSON decodes numbers as floats
			}
		}
		return v, nil
	}
	s = strings.TrimSpace(s)
	if o.Secret && strings.HasPrefix(s, "secret:") {
		return secrets.read(s, o.Name)
	}
	return s, nil
}

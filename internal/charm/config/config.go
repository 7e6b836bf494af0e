// Package config is the charm's options: a table that names each option, its
// type and default, and checks its value. Parse reports every problem at once.
// What an option does is not decided here, except that many are one
// environment key of Concourse each.
package config

import (
	"slices"
	"strings"
	"time"
)

// Config is the charm's options after validation.
type Config struct {
	Mode          string // auto, web, worker
	Version       string // "" or x.y.z
	AutoUpgrade   bool
	GitHubToken   string // a secret
	ReleaseMirror string
	ReleaseSHA256 string // "" or 64 lower-case hex digits
	SharedStorage string // none, lxc
	LogLevel      string // debug, info, error, fatal: those that Concourse has
	HTTPProxy     string // may hold a password: never logged
	HTTPSProxy    string // may hold a password: never logged
	NoProxy       string

	WebPort         int
	ExternalURL     string // "" or without a slash at its end
	PrometheusURL   string // where gpu-usage asks; empty: nowhere
	TLS             bool
	TLSPort         int
	AdminUser       string
	MainTeamUser    string      // "" or names with commas between them
	ExtraLocalUsers string      // a secret: "" or name:password pairs with commas between them
	EncryptionKey   string      // a secret: "" or 16 or 32 bytes
	Metrics         bool        // of Concourse, and of its jobs
	WorkerKeys      []WorkerKey // of workers that the charm does not make
	ExtraWebFlags   []string    // each --flag or --flag=value, nothing quoted
	RequiredArchs   []string    // gfx942: each once, in order
	Rerun           bool        // the web may run steps again whose worker has disappeared, or GPUs of it
	LimitTasks      bool        // the web may limit the tasks of all workers to the GPUs of one

	Tags           []string
	ComputeRuntime string   // none, auto, cuda, rocm; enable-gpu is worked in
	GPUDeviceIDs   string   // as written; internal/gpu.Select understands it
	Exclusive      bool     // gpu-sharing: a task has its GPUs for its own
	Bench          bool     // gpu-bench: tasks that measure may have the clocks of their GPUs fixed
	Tools          bool     // tasks of a unit with GPUs get the charm's programs for them
	Engines        []string // other than Concourse's, that get the wrapper as a runtime
	Kubernetes     string   // auto, off: whether a kubelet of this machine is offered the GPUs
	HangAction     string   // write, end-task: what is done to tasks whose GPU hangs
	Leftovers      string   // end, keep: what is done to processes that ended tasks left behind on leased GPUs
	Quarantine     string   // auto, manual, off: who may withhold a GPU from tasks
	GPUProof       string   // "" or the path of a program that proves a GPU before it is returned
	HSAOverride    string   // "", auto or 11.0.0
	HIPArches      []string // what tasks build for, gfx90a:xnack-: each once, in order
	TaskEnv        map[string]string
	Folders        []string // of /srv; nil with NoFolders unset means all
	NoFolders      bool
	FoldersFor     string // tasks, all
	Toolkit        string // auto, required, skip
	ToolkitVersion string
	ROCmBaseURL    string
	ROCmVersion    string   // "" or x.y.z: a row of internal/gpu/amd's table
	ROCmUsecases   []string // user space of AMD's packages for the unit itself
	ROCmTools      string   // none, smi
	// How far the charm may go with the kernel driver.
	InstallDriver        string // auto, always, never
	AllowDriverChange    bool
	AllowReboot          bool
	ModuleParams         string // name=value words of amdgpu with one space between two
	DeviceMode           string // 0660, 0666
	MinDisk, MinRAM      uint64 // bytes; 0 is no check
	NVIDIAToolkitVersion string // "" or x.y.z
	DCGMAliases          bool
	PCIeBandwidth        bool // of each GPU is measured
	Usage                bool // who uses each GPU is looked up
	DNSProxy             bool
	DNSServers           []string
	DrainTimeout         time.Duration

	// Environment keys of Concourse, from the options whose whole effect is
	// one. Nothing empty is in them. They hold secrets.
	WebEnv         map[string]string // concourse web, without Vault's
	VaultEnv       map[string]string // concourse web's access to Vault
	RegistryMirror registryMirror    // of Docker Hub; Host is "" for none
	RegistryCA     string            // PEM

	// Files is text by environment key: the key's value has to be the path
	// of a file with this content. Its keys are in none of the maps above.
	Files map[string]string

	Notes     []string // what the operator should know though nothing is wrong
	LDAPNotes []string // the same where there is no relation ldap
}

// Problem is a value that an option can't have.
type Problem struct {
	Option string
	Text   string // without the option's name
}

func (p Problem) String() string { return p.Option + ": " + p.Text }

// Parse reads what config-get gave; secrets are those that SecretURIs names.
// Options without a value have their default. The Config is complete only if
// there are no problems.
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

// WithDefaults returns the Config with the default of each option that has a problem, for a
// unit that ends all the same.
func (c Config) WithDefaults(problems []Problem) Config {
	for _, o := range Options() {
		if slices.ContainsFunc(problems, func(p Problem) bool { return p.Option == o.Name }) {
			_ = o.set(&c, o.Default) // a default is never wrong
		}
	}
	return c
}

// value is the option's value as it is to be checked: text without white space
// around it, and what the secret holds instead of its URI.
func (o Option) value(raw map[string]any, secrets Secrets) (any, error) {
	v, ok := raw[o.Name]
	if !ok || v == nil {
		return o.Default, nil
	}
	s, ok := v.(string)
	if !ok {
		if _, count := o.Default.(int); count {
			if n, ok := whole(v); ok {
				v = n // JSON has it as a float
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

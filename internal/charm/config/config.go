// Package config parses the options of the charm. A table names each option, its type and
// default, and checks its value. Parse reports all problems at once. The package never
// decides what an option does, except for options that are one environment variable of
// Concourse.
package config

import (
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Config holds the charm's options after validation. A field has the name of its option,
// without the prefix that is the name of its struct: Web.Port is web-port. Options of
// workers about GPUs are in GPU, those about packages and the kernel in Driver.
type Config struct {
	Mode          Mode
	SharedStorage SharedStorage
	LogLevel      LogLevel
	HTTPProxy     string // may hold a password: never logged
	HTTPSProxy    string // may hold a password: never logged
	NoProxy       string

	Release Release
	Web     Web
	Worker  Worker
	GPU     GPU
	Driver  Driver

	Notes []string // remarks for the operator that are not problems
}

// Release holds the options about the release of Concourse.
type Release struct {
	Version     string // "" or x.y.z
	AutoUpgrade bool
	GitHubToken string // a secret
	Mirror      string
	SHA256      string // "" or 64 lower-case hex digits
}

// Web holds the options of web nodes.
type Web struct {
	concourse.WebOptions
	Port            int
	ExternalURL     string // "" or without a trailing slash
	TLSEnabled      bool
	TLSPort         int
	EncryptionKey   string // a secret: "" or 16 or 32 bytes
	FleetPage       FleetPage
	ExtraWorkerKeys []WorkerKey    // of workers without this charm
	ExtraWebFlags   []string       // each --flag or --flag=value, without quotes
	RequiredArchs   []string       // such as gfx942: each once, in order
	RegistryMirror  registryMirror // of Docker Hub; Host is "" for none
	RegistryCACert  string         // PEM

	// Env and VaultEnv are environment of concourse web, from options that are exactly one
	// variable. VaultEnv is for Vault. No value is empty. Some are secrets.
	Env      map[string]string
	VaultEnv map[string]string
	// Files has texts by environment variable. The value of the variable must be the path
	// of a file with the text. Its variables are not in the maps above.
	Files map[string]string

	LDAPNotes []string // remarks that apply only without the relation ldap
}

// Worker holds the options of workers, except those about GPUs.
type Worker struct {
	concourse.WorkerOptions
	Tag                  []string
	SrvFolders           []string // of /srv; nil means all, unless NoSrvFolders
	NoSrvFolders         bool
	SrvFoldersContainers oci.Containers // Tasks, All
	DrainTimeout         time.Duration
	TaskRecordSize       int // MiB; 0 records no task
}

// GPU holds the options about the GPUs of tasks.
type GPU struct {
	ComputeRuntime   ComputeRuntime // includes enable-gpu
	DeviceIDs        string         // not parsed; see internal/gpu.Select
	Sharing          Sharing
	FixedClocks      bool     // tasks that measure may get fixed clocks
	ContainerEngines []string // other engines that get the wrapper as a runtime
	Kubernetes       Kubernetes
	Quarantine       quarantine.Policy
	HealthCheck      string // "" or the path of the program that checks a GPU before its return
	TaskEnv          map[string]string
	HSAOverrideAuto  bool // task-env has HSA_OVERRIDE_GFX_VERSION=auto, and TaskEnv has not
	Metrics          Metrics
}

// Driver holds the options about packages of GPU vendors and the kernel driver. The charm
// changes the kernel driver only as far as they allow.
type Driver struct {
	AMDContainerToolkit    amd.ToolkitMode
	AMDToolkitVersion      string // "" or x.y.z, with ToolkitAuto
	NVIDIAContainerToolkit string // "" for auto, or x.y.z
	ROCmBaseURL            string
	ROCmVersion            string   // "" or x.y.z: a row of amd's table
	ROCmUsecases           []string // use cases of AMD's packages and smi, for the unit itself
	InstallDriver          amd.InstallDriver
	AllowReboot            bool
	AMDGPUModuleParams     string // name=value words of amdgpu with one space between them
}

// Metrics holds the words of gpu-metrics.
type Metrics struct {
	DCGMAliases   bool
	PCIeBandwidth bool // measure it for each GPU
	Usage         bool // find out which processes use each GPU
}

// Problem describes an invalid value of an option.
type Problem struct {
	Option string
	Text   string // without the option's name
}

func (p Problem) String() string { return p.Option + ": " + p.Text }

// Parse reads the output of config-get, with the secrets of SecretURIs, nil without Juju. An
// option without a value has its default. The Config is complete only if there are no
// problems.
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

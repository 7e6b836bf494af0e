package oci

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
)

// Defaults, and the environment variables that override them.
const (
	// DefaultConfig is the config file. The environment variable EnvConfig overrides it.
	DefaultConfig = "/etc/concourse-ci-machine/wrapper.json"
	// defaultState holds markers of containers with exec calls that need a group. It is
	// below /run, so that a reboot removes it with the containers.
	defaultState = wellknown.RunDir + "/wrapper"
	// DefaultNodes holds private device nodes. It is below /dev, because /run is mounted
	// nodev and nodes on it cannot be opened.
	DefaultNodes = "/dev/.runc-amd"

	// EnvConfig names a config file that replaces DefaultConfig.
	EnvConfig = "RUNC_AMD_CONFIG"
	// EnvRuntime names a real runc that replaces Config.Runtime.
	EnvRuntime = "RUNC_AMD_RUNTIME"
)

// Containers selects the containers that a setting is for.
type Containers string

// Values of Containers.
const (
	// Tasks gives GPUs only to containers of Concourse task steps. It is the default.
	Tasks Containers = "tasks"
	// Requested gives GPUs to tasks and to containers of other engines that request them with a
	// variable of Visible, with GPU_COUNT or with a CDI request.
	Requested Containers = "requested"
	// All gives GPUs to every new container, including checks and gets.
	All Containers = "all"
)

// ConfigVersion is the newest version of the config file's format, see rawjson.VersionKey.
const ConfigVersion = 1

// Config describes the wrapper's config file. The charm writes it by marshalling this type,
// so that both sides agree on the names. An unknown field is an error, because it would be
// a setting that is silently ignored.
type Config struct {
	// Runtime is the absolute path of the real runc.
	Runtime string `json:"runtime"`
	// Containers is Tasks, Requested or All. Empty means Tasks.
	Containers Containers `json:"containers,omitempty"`
	// Specs lists the absolute paths of the CDI spec files (JSON) that describe GPUs,
	// usually only /etc/cdi/amd.json.
	Specs []string `json:"specs,omitempty"`
	// GPUs lists the GPUs that tasks of this unit get. It may be empty: then tasks run
	// without a GPU and no spec file is read.
	GPUs []GPU `json:"gpus,omitempty"`
	// State is a directory for markers. Empty means defaultState.
	State string `json:"state,omitempty"`
	// Nodes is a directory for private device nodes. Empty means DefaultNodes. Its file
	// system must not be mounted nodev.
	Nodes string `json:"nodes,omitempty"`
	// Visible lists the environment variables that narrow a task's GPUs to some of GPUs,
	// such as AMD_VISIBLE_DEVICES. A task that sets several of them gets the GPUs that all
	// of them allow. If it is empty, such variables have no effect. GPU_COUNT always has an
	// effect.
	Visible []string `json:"visible,omitempty"`
	// Env is set in containers that get a GPU, at create and at each exec with a process
	// file. Variables that the task or its image sets are kept.
	Env map[string]string `json:"env,omitempty"`
	// RootfsEnv adds to Env in containers that have the directory in the key (an absolute
	// path), in their image or as a mount. It requires Linux 5.6 and is ignored before
	// that.
	RootfsEnv map[string]map[string]string `json:"rootfs_env,omitempty"`
	// Folders configures the unit's folders in containers. nil means none.
	Folders *Folders `json:"folders,omitempty"`
	// Tools is the absolute path of a folder with programs, which tasks find read-only at
	// the same path. A missing folder is ignored. Empty means none.
	Tools string `json:"tools,omitempty"`
	// CACertificates is the absolute path of a file of certificates in PEM form. Tasks find
	// it read-only through the usual variables. A missing file is ignored. Empty means
	// none.
	CACertificates string `json:"ca_certificates,omitempty"`
	// Leases makes GPUs exclusive, so that no GPU is in two containers at a time. nil means
	// that each container gets all of GPUs that it does not decline.
	Leases *Leases `json:"leases,omitempty"`
	// Quarantine is the absolute path of a file made by admission.Encode: it names the GPUs
	// that no new container gets, because of faults or an operator's decision. Containers
	// that have one keep it, and an exec does not check. If the file is missing, cannot be
	// decoded or is writable for others than root, no GPU is quarantined: a guard against
	// sick GPUs must not stop all builds. The charm writes the file again within seconds.
	// Empty means no quarantine.
	Quarantine string `json:"quarantine,omitempty"`
	// Volumes is the absolute path of the folder of Concourse's volumes. While its disk is
	// full, no container of a step is created. Empty means that the disk is not checked.
	Volumes string `json:"volumes,omitempty"`
	// Missing is the reason that a unit with GPUs for tasks has no GPUs now. A task that
	// requests a GPU is refused with it. If it is empty, such a task runs without a GPU.
	Missing string `json:"missing,omitempty"`
}

// GPU describes one GPU that tasks get. While a container is created, its index in Config.GPUs
// identifies it.
type GPU struct {
	// Name names its lease, and the GPU in the quarantine. It is its PCI address and
	// partition, because it must stay with the GPU when its index in a CDI spec changes.
	Name string `json:"name"`
	// CDI is its full name in Specs, such as amd.com/gpu=GPU-1a2b3c, or amd.com/gpu=all.
	CDI string `json:"cdi"`
	// Nodes lists the device nodes that only this GPU has. If the spec gives it other ones,
	// spec and config are of different times, and no task gets it. Only a GPU that is not
	// leased may have none, which means that the spec decides.
	Nodes []string `json:"nodes,omitempty"`
	// Clocks describes how a task that measures gets fixed clocks. nil means not at all.
	Clocks *fixedclocks.Setting `json:"clocks,omitempty"`
}

// Folders configures the directories directly below Root, which are bound at their own
// paths in a container. They are writable if the name ends in _writable or _rw, and
// read-only otherwise. Symbolic links, files and hidden names are left out.
type Folders struct {
	// Root is the absolute path of the parent directory, usually /srv. It may be missing if
	// Names is empty.
	Root string `json:"root"`
	// Containers is Tasks or All. Empty means Tasks.
	Containers Containers `json:"containers,omitempty"`
	// Names lists the folders to bind. Empty means all. If a named folder cannot be bound,
	// the container is refused.
	Names []string `json:"names,omitempty"`
	// Readonly is Recursive or TopOnly. Empty means Recursive.
	Readonly string `json:"readonly,omitempty"`
}

// Values of Folders.Readonly.
const (
	// Recursive makes mounts below a folder read-only too, with the option rro. It requires
	// Linux 5.12 and runc 1.1 (`runc features` lists rro). It is the default.
	Recursive = "rro"
	// TopOnly is for older versions: mounts below a folder stay writable.
	TopOnly = "ro"
)

// Leases makes GPUs exclusive: a container that gets GPUs leases each of them
// (internal/pool/lease) and gets only those. GPU_COUNT and the variables of Config.Visible
// in its environment choose how many and which. A container that gets none leases none.
// With All every container leases, including checks and gets, and a worker with one GPU
// then runs one container at a time.
//
// Switching leases on or off affects containers that are created afterwards. A container
// from before keeps its GPUs unleased, so tasks should have ended before leases are switched
// on.
type Leases struct {
	// Dir is the absolute path of their directory. Empty means lease.DefaultDir.
	Dir string `json:"dir,omitempty"`
	// Links[i][j] rates the connection of the GPUs i and j of Config.GPUs from 0 to MaxLink,
	// see lease.Leases. Empty means not known.
	Links [][]int `json:"links,omitempty"`
	// Clocks is the absolute path of the directory of GPUs with fixed clocks. Empty means
	// fixedclocks.DefaultDir. A task never names a path: the wrapper writes only to files of the
	// GPUs that the task has leased.
	Clocks string `json:"clocks,omitempty"`
	// Missing names GPUs that the unit had and no longer has. Concourse still schedules
	// tasks for them.
	Missing []string `json:"missing,omitempty"`
}

// MaxLink bounds an entry of Leases.Links.
const MaxLink = 1000

// GPUNames returns the names of c.GPUs, in their order.
func (c Config) GPUNames() []string {
	names := make([]string, len(c.GPUs))
	for i, g := range c.GPUs {
		names[i] = g.Name
	}
	return names
}

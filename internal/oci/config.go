package oci

// Where the wrapper looks when nothing else is said.
const (
	// DefaultConfig is the config file; the environment variable EnvConfig overrides it.
	DefaultConfig = "/etc/concourse-ci-machine/wrapper.json"
	// defaultState holds markers of containers whose exec calls need a group.
	// Below /run, so that it goes with the containers at a reboot.
	defaultState = "/run/concourse-ci-machine/wrapper"
	// DefaultNodes holds private device nodes. Below /dev, because /run is
	// mounted nodev and a node on it can't be opened.
	DefaultNodes = "/dev/.runc-amd"

	// EnvConfig names the config file in place of DefaultConfig.
	EnvConfig = "RUNC_AMD_CONFIG"
	// EnvRuntime names the real runc in place of Config.Runtime.
	EnvRuntime = "RUNC_AMD_RUNTIME"
)

// Values of Config.Containers.
const (
	// Tasks gives GPUs only to containers of Concourse task steps. Default.
	Tasks = "tasks"
	// Asked gives GPUs to tasks and, of containers that are not Concourse's, to those
	// that ask: by a variable of Visible, GPU_COUNT or a CDI request.
	Asked = "asked"
	// All gives GPUs to every container that is created, checks and gets too.
	All = "all"
)

// Config is the wrapper's config file. The charm writes it by marshalling this
// type, so that both sides always agree on the names; a field that the wrapper
// does not know is an error, because it would be a setting silently ignored.
type Config struct {
	// Runtime is the absolute path of the real runc.
	Runtime string `json:"runtime"`
	// Containers is Tasks, Asked or All; empty means Tasks.
	Containers string `json:"containers,omitempty"`
	// Specs are absolute paths of the CDI spec files (JSON) that Devices are
	// looked up in, usually /etc/cdi/amd.json alone.
	Specs []string `json:"specs,omitempty"`
	// Devices are the full CDI names that tasks of this unit get, such as
	// amd.com/gpu=all or amd.com/gpu=GPU-1a2b3c. None is no error: tasks then
	// run without a GPU, and no spec file is read.
	Devices []string `json:"devices,omitempty"`
	// State is a directory for markers; empty means defaultState.
	State string `json:"state,omitempty"`
	// Nodes is a directory for private device nodes; empty means DefaultNodes.
	// Its file system must not be mounted nodev.
	Nodes string `json:"nodes,omitempty"`
	// Visible are the environment variables by which a task may narrow its GPUs
	// to some of Devices, such as AMD_VISIBLE_DEVICES. Where a task sets more
	// than one of them, it gets what all of them allow. None: no list has an
	// effect. GPU_COUNT has one in any case.
	Visible []string `json:"visible,omitempty"`
	// Env is set in containers that get a GPU, at create and at each exec with a
	// process file. A variable that the task or its image set stays as it is.
	Env map[string]string `json:"env,omitempty"`
	// RootfsEnv is more of Env, for containers whose image has the directory that
	// is its key (an absolute path), or which have something mounted there. It
	// needs Linux 5.6; before that nothing of it is set.
	RootfsEnv map[string]map[string]string `json:"rootfs_env,omitempty"`
	// Folders are the unit's folders that containers get; nil means none.
	Folders *Folders `json:"folders,omitempty"`
	// Tools is the absolute path of a folder with programs, which tasks find at the same
	// path, to read only; one that is not there is left out. Empty means none.
	Tools string `json:"tools,omitempty"`
	// CACertificates is the absolute path of a file of certificates in PEM form, which
	// tasks find, to read only, by the usual variables. Where it is not there they run
	// without. Empty means none.
	CACertificates string `json:"ca_certificates,omitempty"`
	// Leases make GPUs exclusive: no GPU is in two containers at a time. nil means
	// that each container gets all of Devices that it does not decline.
	Leases *Leases `json:"leases,omitempty"`
	// Withheld are GPUs of Devices that no new container gets; nil means none.
	Withheld *Withheld `json:"withheld,omitempty"`
	// Missing is why there are no Devices on a unit whose tasks are to have GPUs: a
	// task that asks for one is refused with it. Empty: it runs without.
	Missing string `json:"missing,omitempty"`
}

// Folders are the directories right below Root, each bound at its own path in
// a container: for reading, or for writing too where its name ends in _writable
// or _rw. Symbolic links, files and hidden names are left out.
type Folders struct {
	// Root is the absolute path of the parent directory, usually /srv. One that
	// does not exist is no error, as long as Names is empty.
	Root string `json:"root"`
	// Containers is Tasks or All; empty means Tasks.
	Containers string `json:"containers,omitempty"`
	// Names are the folders that are wanted; empty means all. One that is named
	// and can't be given fails the container.
	Names []string `json:"names,omitempty"`
	// Readonly is Recursive or TopOnly; empty means Recursive.
	Readonly string `json:"readonly,omitempty"`
}

// Values of Folders.Readonly.
const (
	// Recursive makes mounts below a folder read-only too, by the option rro.
	// It needs Linux 5.12 and runc 1.1 (`runc features` lists rro). Default.
	Recursive = "rro"
	// TopOnly is for older ones: what is mounted below a folder stays writable.
	TopOnly = "ro"
)

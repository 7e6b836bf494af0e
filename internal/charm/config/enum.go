package config

import "github.com/fourdollars/concourse-ci-machine/internal/gpu"

// Types of options with a fixed list of values. Other packages own the types that they act
// on: quarantine.Policy, oci.Containers and those of package amd.

// Mode names a value of mode.
type Mode string

// Values of Mode.
const (
	ModeAuto   Mode = "auto" // the leader is the web, the others are workers
	ModeAll    Mode = "all"  // as auto, and the leader is a worker, too
	ModeWeb    Mode = "web"
	ModeWorker Mode = "worker"
)

// Valid reports whether units with this mode have a role.
func (m Mode) Valid() bool { return m == ModeAuto || m == ModeAll || m == ModeWeb || m == ModeWorker }

// SharedStorage names a value of shared-storage.
type SharedStorage string

// Values of SharedStorage.
const (
	StorageNone SharedStorage = "none"
	StorageLXC  SharedStorage = "lxc" // a folder of the LXD host
)

// FleetPage names a value of fleet-page.
type FleetPage string

// Values of FleetPage.
const (
	FleetNames     FleetPage = "names"
	FleetAnonymous FleetPage = "anonymous" // without the names of teams, pipelines and jobs
	FleetOff       FleetPage = "off"
)

// LogLevel names a level of Concourse's log.
type LogLevel string

// Values of LogLevel. Concourse refuses to start with warn, and logs nothing at this level.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	logWarn  LogLevel = "warn"
	LogError LogLevel = "error"
	LogFatal LogLevel = "fatal"
)

// ComputeRuntime is a value of compute-runtime: RuntimeNone, RuntimeAuto, or one of
// gpu.Runtimes.
type ComputeRuntime string

// Values of ComputeRuntime without a vendor.
const (
	RuntimeNone ComputeRuntime = "none"
	RuntimeAuto ComputeRuntime = "auto" // the vendor of the unit's GPUs
)

// Vendor returns the vendor that the option names, "" for none and auto.
func (r ComputeRuntime) Vendor() gpu.Vendor { return gpu.OfRuntime(string(r)) }

// Sharing names a value of gpu-sharing.
type Sharing string

// Values of Sharing.
const (
	Shared    Sharing = "shared"
	Exclusive Sharing = "exclusive" // no two tasks use a GPU at the same time
)

// Kubernetes names a value of kubernetes.
type Kubernetes string

// Values of Kubernetes.
const (
	KubernetesAuto   Kubernetes = "auto"   // offer the GPUs to the kubelet of this machine
	KubernetesClaims Kubernetes = "claims" // offer them to claims of the cluster instead
	KubernetesOff    Kubernetes = "off"
)

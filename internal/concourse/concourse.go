// Package concourse is what the charm knows of running a Concourse worker:
// getting a release, its folders and unit, its keys and environment, its tags
// and name, how to drain it and how to ask it for its health. It returns data
// and plan.Resource values; it never talks to Juju and never decides whether
// a worker is wanted.
package concourse

// Unit is the worker's systemd unit.
const Unit = "concourse-worker.service"

// Paths of the machine.
const (
	resourceTypes = ReleaseLink + "/resource-types"
	WorkDir       = HomeDir + "/worker"

	ConfigDir       = "/var/lib/concourse-worker"
	KeyDir          = ConfigDir + "/keys"
	WorkerKey       = KeyDir + "/worker_key"
	WorkerKeyPublic = KeyDir + "/worker_key.pub"
	TSAHostKey      = KeyDir + "/tsa_host_key.pub"
	EnvFile         = ConfigDir + "/worker-config.env"
	OperatorEnvFile = "/etc/default/concourse"
	UnitFile        = "/etc/systemd/system/" + Unit

	// runtimeDir comes first on the PATH of containerd's shims, which look
	// runc up there: its runc is the charm's wrapper.
	runtimeDir = "/opt/concourse-ci-machine/runtime"
	Wrapper    = runtimeDir + "/runc"
	Launcher   = runtimeDir + "/containerd"
	// RealRunc and realContainerd are the release's own (never the system's,
	// never a copy that an upgrade forgets).
	RealRunc       = BinDir + "/runc"
	realContainerd = BinDir + "/containerd"

	// HealthURL answers while the worker is up, registered or not.
	HealthURL = "http://127.0.0.1:8888/"
)

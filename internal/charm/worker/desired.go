package worker

import (
	"time"

	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/gpu/amd"
)

// Desired is what a unit that is a worker should be.
type Desired struct {
	role.Desired
	Worker
}

// Worker is what of it no web has.
type Worker struct {
	Up     bool   // it should be running after applying
	Suffix string // of the status text when nothing is in the way: " (GPU: 1x AMD)"

	TSA        concourse.TSA // where it registers
	LogLevel   string
	Invocation string // systemd's id of its process as it was observed

	Drain time.Duration       // what its tasks get when it leaves, as the web is told
	GPUs  relation.WorkerGPUs // as the web is told
	Known KnownGPUs           // to be remembered
	Asked string              // release that was asked for its limit

	Kubernetes bool   // the kubelet is offered the GPUs after applying
	Exporter   bool   // rocm-exporter should be running after applying
	Toolkit    bool   // the toolkit is wanted; a failed attempt belongs into the status
	NoToolkit  string // why this base has no toolkit, for check-status
	NVIDIA     bool   // the same for NVIDIA's
	Describes  bool   // applying can give tasks NVIDIA GPUs that they have not now
	Driver     *Driver
}

// Driver is what was decided on the driver of AMD GPUs, and from what.
type Driver struct {
	Decision amd.Decision
	Facts    amd.DriverFacts
	Wanted   amd.Wanted
	Computes bool // tasks get GPUs all the same
}

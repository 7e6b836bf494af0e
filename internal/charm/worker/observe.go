package worker

import (
	"context"
	"errors"
	"io/fs"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Observed holds the input for the decisions on a worker.
type Observed struct {
	role.Observed

	GPUs          gpu.Inventory
	Links         [][]gpu.Link        // between GPUs.GPUs, if they are leased
	NodeLabels    *nodelabels.Machine // values for labels of AMD GPUs; nil if no program reads them
	NVIDIA        []string            // devices in NVIDIA's CDI spec; nil without a spec
	Folders       []string            // directories in /srv
	Landed        bool                // the operator landed this worker
	Known         KnownGPUs           // previous GPUs
	Quarantine    quarantine.Record
	TagState      tagState
	Leases        *pool.Report // nil if tasks share GPUs, or without a report
	Kubelet       bool         // the machine has a kubelet
	KubeletDigest []byte       // changes with the program that serves it
	Toolkit       amd.ToolkitState

	NVIDIAToolkit nvidia.ToolkitState
	Driver        *amd.DriverFacts // nil if the unit needs no AMD driver

	CertsFolders []string // names in concourse.CertsFolders
	NameServers  []string // see machineNameServers

	WorkerEnv    []byte // current worker-config.env
	WebKey       string // current key of the web's TSA
	RunningTasks int
	HeldUntil    time.Time // end of the hold of the tags; zero if they are not held
	Exports      bool      // the exporter is set up
	InstalledID  string    // running release
	WorkerLimit  workerLimit
	LimitRelease string // the installed release, also if it could not be run

	TSA         concourse.TSA // of the chosen web
	TSAProblems []string
}

// Observe reads the machine of a worker. u is the part that all units have.
func Observe(ctx context.Context, h host.Host, u role.Observed) (Observed, error) {
	o := Observed{Observed: u}
	var err error
	if o.Config.GPU.ComputeRuntime != config.RuntimeNone { // a worker without GPUs cannot fail because of GPUs (D23)
		if o.GPUs, err = gpu.Discover(h.Root); err != nil {
			return o, jujuerrors.Annotate(err, "cannot observe the GPUs")
		}
		o.ObserveLinks(h.Root)
		o.ObserveLabels(h.Root)
		for _, v := range gpu.Vendors() {
			if err := vendors[v].observe(ctx, &o, h); err != nil {
				return o, err
			}
		}
	}
	if err := o.ReadSpecs(h.Root); err != nil {
		return o, err
	}
	if o.Folders, err = SrvFolders(h.Root); err != nil {
		return o, err
	}
	if err := o.observeWorkerLimit(ctx, h); err != nil {
		return o, err
	}
	o.Landed = h.Exists(role.LandedFile)
	if err := o.ObserveKnown(h.Root); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe which GPUs there were")
	}
	if err := o.observeQuarantine(h.Root); err != nil {
		return o, err
	}
	o.observeLeases(h)
	if err := o.observeKubelet(h); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the program for the kubelet")
	}
	folders, err := h.ReadDir(concourse.CertsFolders)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the certificates for checks, gets and puts")
	}
	for _, f := range folders {
		o.CertsFolders = append(o.CertsFolders, f.Name())
	}
	if o.NameServers, err = machineNameServers(h.Root); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the name servers")
	}
	o.TSA, o.TSAProblems = model.ChooseTSA(o.Facts)
	if o.Programs, err = role.Programs(o.CharmDir, "pebble", "rocm-exporter"); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the charm's own programs")
	}
	o.WorkerEnv, err = h.ReadFile(concourse.EnvFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the worker's environment")
	}
	if err := o.observeHeldTags(h.Root); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe whether tags wait for tasks")
	}
	if o.TakesOver = predecessor.WroteWorker(o.WorkerEnv); !o.TakesOver {
		return o, nil
	}
	key, err := role.ReadOptional(h.Root, concourse.WorkerKey)
	if problem := concourse.KeyProblem(key); err == nil && key != "" && problem != "" {
		o.Refused = append(o.Refused, &concourse.KeyError{Path: concourse.WorkerKey, Problem: problem})
	}
	return o, err
}

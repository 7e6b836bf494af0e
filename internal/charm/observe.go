package charm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/nvidia"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
)

// Observed is everything that Desire decides on. It is data: two equal ones
// give equal desires.
type Observed struct {
	Event    string // the hook's name
	Facts    Facts
	Config   config.Config
	Machine  Machine
	Arch     string // amd64, arm64
	CharmDir string // where the charm's own files are, as this process opens them
	Now      time.Time

	GPUs    gpu.Inventory
	Links   [][]gpu.Link // between GPUs.GPUs, where they are leased
	NVIDIA  []string     // devices in NVIDIA's CDI spec; nil where there is none
	Folders []string     // directories in /srv
	Landed  bool         // the operator landed this worker
	Known   knownGPUs    // the GPUs that it had
	Toolkit rocm.ToolkitState

	NVIDIAToolkit nvidia.State
	Driver        *rocm.DriverFacts // nil where AMD's driver is not this unit's business
	Install       rocm.InstallState
	Kernel        string // uname -r

	// Release is the one that is wanted, ReleaseID its identity once installed.
	Release   *concourse.Release
	ReleaseID string
	// Storage is why the shared storage can't be used; nil where it can, or
	// where there is none.
	Storage error
	// Remarks are about the release: what auto-upgrade leaves to the operator, or
	// that a version was given up here.
	Remarks  []string
	WorkerID string // of the work folder; a fresh one where it has none
	KeptName string // of a worker that the Python charm registered; "" for others
	// TakesOver says that this unit's service is as the Python charm set it up;
	// Refused are keys that it has and that are of no use.
	TakesOver bool
	Refused   []error
	// Predecessor takes away what the Python charm left; OldStorage is for shared storage, once the secret has the keys.
	Predecessor, OldStorage []plan.Resource
	WorkerEnv               []byte   // worker-config.env as it is
	WebEnv                  []byte   // config.env as it is
	OtherKeys               []string // lines of the file of workers' keys that somebody added
	Limits                  []string // variables of limits in it that are the charm's
	WorkerLimit             workerLimit
	Asked                   string // the release that was asked for it, or could not be
	Certify                 Certify
	TLS                     bool // the web has its certificate

	// ClusterName tells this Concourse from others in what it logs and serves.
	ClusterName string
	Units       map[string]resource.UnitState
	Programs    []byte // tells whether the charm's own programs changed

	TSA         concourse.TSA // of the web that was chosen
	TSAProblems []string
}

// observe looks at the machine. It changes nothing and runs read-only
// commands only.
func (c *Charm) observe(ctx context.Context, facts Facts, cfg config.Config, units func() (map[string]resource.UnitState, error)) (Observed, error) {
	o := Observed{Event: c.Event.Name, Facts: facts, Config: cfg, Arch: runtime.GOARCH, CharmDir: c.CharmDir,
		Machine: observeMachine(c.Host.Root).under(facts.Juju), Now: c.Host.Now(), ClusterName: c.Event.ModelName}
	var err error
	if o.Units, err = units(); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the systemd units")
	}
	o.Install = rocm.ObserveInstall(c.Host.Root)
	if o.Kernel, err = c.Host.ReadText("/proc/sys/kernel/osrelease"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the kernel")
	}
	if leaving(c.Event.Name) {
		return o, nil // what is wanted is nothing, whatever there is
	}
	o.Predecessor, o.Remarks = concourse.Predecessor(c.Host.Root), append(o.Remarks, concourse.PredecessorRemarks(c.Host.Root)...)
	if facts.Role == WebRole {
		return c.observeWeb(ctx, o)
	}
	if cfg.ComputeRuntime != "none" { // a worker without GPUs can't fail for theirs (D23)
		if o.GPUs, err = gpu.Discover(c.Host.Root); err != nil {
			return o, jujuerrors.Annotate(err, "cannot observe the GPUs")
		}
		c.observeLinks(&o)
		if o.Toolkit, err = rocm.ObserveToolkit(c.Host.Root); err != nil {
			return o, jujuerrors.Annotate(err, "cannot observe the AMD container toolkit")
		}
		if o.NVIDIAToolkit, err = nvidia.Observe(c.Host.Root); err != nil {
			return o, jujuerrors.Annotate(err, "cannot observe NVIDIA's container toolkit")
		}
		if err := c.observeDriver(ctx, &o); err != nil {
			return o, err
		}
	}
	if o.NVIDIA, err = nvidiaDevices(c.Host.Root); err != nil {
		return o, err
	}
	if o.Folders, err = srvFolders(c.Host.Root); err != nil {
		return o, err
	}
	if err := c.observeWorkerLimit(ctx, &o); err != nil {
		return o, err
	}
	o.Landed = c.Host.Exists(landedFile)
	if o.Known, err = readKnown(c.Host.Root); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe which GPUs there were")
	}
	o.TSA, o.TSAProblems = chooseTSA(facts)
	if err := c.observeRelease(ctx, &o, o.TSA.Version); err != nil {
		return o, err
	}
	var ok bool
	if o.WorkerID, ok = concourse.ReadWorkerID(c.Host.Root, concourse.WorkFolder(o.shared())); !ok {
		o.WorkerID = c.NewID()
	}
	o.KeptName, _ = concourse.PredecessorName(c.Host.Root, concourse.WorkFolder(o.shared()))
	if o.Programs, err = programs(c.CharmDir, "pebble", "rocm-exporter"); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the charm's own programs")
	}
	o.WorkerEnv, err = c.Host.ReadFile(concourse.EnvFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the worker's environment")
	}
	if o.TakesOver = concourse.PredecessorsWorker(o.WorkerEnv); !o.TakesOver {
		return o, nil
	}
	key, err := readOptional(c.Host.Root, concourse.WorkerKey)
	if problem := concourse.KeyProblem(key); err == nil && key != "" && problem != "" {
		o.Refused = []error{&concourse.KeyError{Path: concourse.WorkerKey, Problem: problem}}
	}
	return o, err
}

// showUnits asks systemd in the background; the function waits for the answer.
func (c *Charm) showUnits(ctx context.Context) func() (map[string]resource.UnitState, error) {
	type answer struct {
		units map[string]resource.UnitState
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		units, err := resource.ShowUnits(ctx, c.Host, concourse.Unit, concourse.WebUnit, PebbleUnit, refreshUnit)
		done <- answer{units, err}
	}()
	return func() (map[string]resource.UnitState, error) {
		a := <-done
		return a.units, a.err
	}
}

// programs identifies files that come with the charm, without reading them.
func programs(dir string, names ...string) (id []byte, err error) {
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, "bin", name))
		if err != nil {
			return nil, err
		}
		id = fmt.Appendf(id, "%s %d %d\n", name, st.Size(), st.ModTime().UnixNano())
	}
	return id, nil
}

// attached reports whether a release was attached: an empty file is how a
// store says that none was. The path is Juju's own, not below the root.
func attached(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() > 0
}

// chooseTSA takes the first complete web unit of the first relation; with
// mode=auto the web is the peers' leader, who tells in the application's bag.
func chooseTSA(f Facts) (t concourse.TSA, problems []string) {
	if modeOf(f.Config) == "auto" {
		if f.Peer == nil {
			return t, nil
		}
		return concourse.ParseTSA(f.Peer.Remote)
	}
	if len(f.Flights) == 0 {
		return t, nil
	}
	t, _, problems = concourse.FindTSA(f.Flights[0].Units)
	return t, problems
}

// observeWeb looks at what a web depends on.
func (c *Charm) observeWeb(ctx context.Context, o Observed) (Observed, error) {
	err := c.observeRelease(ctx, &o, "")
	if err != nil {
		return o, err
	}
	o.WorkerID, _ = concourse.ReadWorkerID(c.Host.Root, concourse.WorkFolder(o.shared()))
	o.KeptName, _ = concourse.PredecessorName(c.Host.Root, concourse.WorkFolder(o.shared()))
	if o.Programs, err = programs(c.CharmDir, "pebble", "concourse-exporter"); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the charm's own programs")
	}
	paths := concourse.WebFiles(o.shared()).TakeOverFrom(c.Host.Root)
	env, err := readOptional(c.Host.Root, paths.Env())
	if err != nil {
		return o, err
	}
	o.WebEnv = []byte(env)
	o.TakesOver = concourse.PredecessorsWeb(o.WebEnv)
	if o.OtherKeys, err = otherKeys(c.Host.Root, paths, o.Facts.Web); err != nil {
		return o, err
	}
	limits, err := readOptional(c.Host.Root, webLimitFile)
	if err != nil {
		return o, err
	}
	o.Limits = strings.Fields(limits)
	if o.Facts.Leader && o.Facts.Web.SecretID != "" {
		o.OldStorage = concourse.PredecessorShared(c.Host.Root)
	}
	if o.Certify, err = observeCertify(c.Host.Root, o.Config, o.Facts.Web); err != nil {
		return o, err
	}
	_, o.TLS, _ = certificateOf(o)
	return o, nil
}

// proxyOf is the operator's proxies, else the model's.
func proxyOf(facts Facts, cfg config.Config) resource.Proxies {
	p := resource.Proxies{HTTP: cfg.HTTPProxy, HTTPS: cfg.HTTPSProxy, No: cfg.NoProxy}
	if p == (resource.Proxies{}) {
		p = resource.Proxies{HTTP: facts.Proxy.HTTP, HTTPS: facts.Proxy.HTTPS, No: facts.Proxy.NoProxy}
	}
	return p
}

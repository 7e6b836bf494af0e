package charm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
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
	NVIDIA  []string // devices in NVIDIA's CDI spec; nil where there is none
	Folders []string // directories in /srv
	Toolkit rocm.ToolkitState

	// Release is the one that is wanted, ReleaseID its identity once installed.
	Release   *concourse.Release
	ReleaseID string
	WorkerID  string // of the work folder; a fresh one where it has none
	WorkerEnv []byte // worker-config.env as it is
	Units     map[string]resource.UnitState
	Programs  []byte // tells whether the charm's own programs changed

	TSA         concourse.TSA // of the web that was chosen
	TSAProblems []string
}

// observe looks at the machine. It changes nothing and runs read-only
// commands only.
func (c *Charm) observe(facts Facts, cfg config.Config, units func() (map[string]resource.UnitState, error)) (Observed, error) {
	o := Observed{Event: c.Event.Name, Facts: facts, Config: cfg, Arch: runtime.GOARCH, CharmDir: c.CharmDir,
		Machine: observeMachine(c.Host.Root), Now: c.Host.Now()}
	var err error
	if o.Units, err = units(); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the systemd units")
	}
	if leaving(c.Event.Name) {
		return o, nil // what is wanted is nothing, whatever there is
	}
	if cfg.ComputeRuntime != "none" { // a worker without GPUs can't fail for theirs (D23)
		if o.GPUs, err = gpu.Discover(c.Host.Root); err != nil {
			return o, jujuerrors.Annotate(err, "cannot observe the GPUs")
		}
		if o.Toolkit, err = rocm.ObserveToolkit(c.Host.Root); err != nil {
			return o, jujuerrors.Annotate(err, "cannot observe the AMD container toolkit")
		}
	}
	if o.NVIDIA, err = nvidiaDevices(c.Host.Root); err != nil {
		return o, err
	}
	if o.Folders, err = srvFolders(c.Host.Root); err != nil {
		return o, err
	}
	o.TSA, o.TSAProblems = chooseTSA(facts.Flights)
	o.Release = c.wantedRelease(facts, cfg, o.TSA.Version)
	if o.ReleaseID, err = o.Release.ID(c.Host.Root); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the Concourse releases")
	}
	var ok bool
	if o.WorkerID, ok = concourse.ReadWorkerID(c.Host.Root); !ok {
		o.WorkerID = c.NewID()
	}
	if o.Programs, err = programs(c.CharmDir, "pebble", "rocm-exporter"); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the charm's own programs")
	}
	o.WorkerEnv, err = c.Host.ReadFile(concourse.EnvFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the worker's environment")
	}
	return o, nil
}

// showUnits asks systemd in the background; the function waits for the answer.
func (c *Charm) showUnits(ctx context.Context) func() (map[string]resource.UnitState, error) {
	type answer struct {
		units map[string]resource.UnitState
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		units, err := resource.ShowUnits(ctx, c.Host, concourse.Unit, PebbleUnit)
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

// chooseTSA takes the first complete web unit of the first relation.
func chooseTSA(flights []Flight) (t concourse.TSA, problems []string) {
	if len(flights) == 0 {
		return t, nil
	}
	t, _, problems = concourse.FindTSA(flights[0].Units)
	return t, problems
}

// wantedRelease is the operator's version, else the web's, else the one that
// this charm was tested with.
func (c *Charm) wantedRelease(facts Facts, cfg config.Config, web string) *concourse.Release {
	version := cfg.Version
	if version == "" {
		version = web
	}
	if version == "" && !attached(facts.Resource) {
		version = concourse.TestedVersion
	}
	return &concourse.Release{Version: version, Resource: facts.Resource, Mirror: cfg.ReleaseMirror, SHA256: cfg.ReleaseSHA256,
		Arch: runtime.GOARCH, Proxy: proxyOf(facts, cfg), Sleep: c.Sleep,
		Progress: func(text string) { c.say(context.Background(), text) }}
}

// proxyOf is the operator's proxies, else the model's.
func proxyOf(facts Facts, cfg config.Config) concourse.Proxy {
	p := concourse.Proxy{HTTP: cfg.HTTPProxy, HTTPS: cfg.HTTPSProxy, No: cfg.NoProxy}
	if p == (concourse.Proxy{}) {
		p = concourse.Proxy{HTTP: facts.Proxy.HTTP, HTTPS: facts.Proxy.HTTPS, No: facts.Proxy.NoProxy}
	}
	return p
}

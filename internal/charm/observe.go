package charm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/machine"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
)

// observe looks at what every unit has. It changes nothing and runs read-only
// commands only.
func (c *Charm) observe(ctx context.Context, facts model.Facts, cfg config.Config, units func() (map[string]resource.UnitState, error)) (UnitObserved, error) {
	o := UnitObserved{Event: c.Event.Name, Facts: facts, Config: cfg, Arch: runtime.GOARCH, CharmDir: c.CharmDir,
		Machine: machine.Observe(c.Host.Root).Under(facts.Juju), Now: c.Host.Now()}
	var err error
	if o.Units, err = units(); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the systemd units")
	}
	o.Install = rocm.ObserveInstall(c.Host.Root)
	if o.Kernel, err = c.Host.ReadText("/proc/sys/kernel/osrelease"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the kernel")
	}
	if model.Leaving(c.Event.Name) {
		return o, nil // what is wanted is nothing, whatever there is
	}
	o.Predecessor, o.Remarks = concourse.Predecessor(c.Host.Root), concourse.PredecessorRemarks(c.Host.Root)
	web := ""
	if facts.Role != model.WebRole {
		tsa, _ := model.ChooseTSA(facts)
		web = tsa.Version
	}
	if err := c.observeRelease(ctx, &o, web); err != nil {
		return o, err
	}
	work := concourse.WorkFolder(o.shared())
	var there bool
	if o.WorkerID, there = concourse.ReadWorkerID(c.Host.Root, work); !there && facts.Role != model.WebRole {
		o.WorkerID = c.NewID()
	}
	o.KeptName, _ = concourse.PredecessorName(c.Host.Root, work)
	return o, nil
}

// decideRole is what the unit of its role should be.
func (c *Charm) decideRole(ctx context.Context, u UnitObserved) (Desired, error) {
	switch {
	case model.Leaving(u.Event):
		return desireNothing(u), nil
	case u.Facts.Role == model.WebRole:
		o, err := ObserveWeb(c.Host, u, c.Event.ModelName)
		if err != nil {
			return Desired{}, err
		}
		return DesireWeb(o), nil
	}
	o, err := ObserveWorker(ctx, c.Host, u)
	if err != nil {
		return Desired{}, err
	}
	return DesireWorker(o), nil
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

// Attached reports whether a release was attached: an empty file is how a
// store says that none was. The path is Juju's own, not below the root.
func Attached(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() > 0
}

// ProxyOf is the operator's proxies, else the model's.
func ProxyOf(facts model.Facts, cfg config.Config) concourse.Proxy {
	p := concourse.Proxy{HTTP: cfg.HTTPProxy, HTTPS: cfg.HTTPSProxy, No: cfg.NoProxy}
	if p == (concourse.Proxy{}) {
		p = concourse.Proxy{HTTP: facts.Proxy.HTTP, HTTPS: facts.Proxy.HTTPS, No: facts.Proxy.NoProxy}
	}
	return p
}

// LandedFile says that the operator landed this worker: hooks leave it down.
const LandedFile = model.StateDir + "/landed"

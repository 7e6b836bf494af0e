package charm

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// observe reads the state that units of both roles have. It changes nothing and runs only
// commands that read.
func (c *Charm) observe(ctx context.Context, facts model.Facts, cfg config.Config,
	units func() (map[string]resource.UnitState, error)) (role.Observed, error) {
	o := role.Observed{Event: c.Event.Name, Facts: facts, Config: cfg, Arch: runtime.GOARCH, CharmDir: c.CharmDir,
		Machine: machine.Observe(c.Host.Root).Under(facts.Juju), Now: c.Host.Now()}
	var err error
	if o.Units, err = units(); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the systemd units")
	}
	o.Install = amd.ObserveInstall(c.Host.Root)
	if o.Kernel, err = c.Host.ReadText("/proc/sys/kernel/osrelease"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, jujuerrors.Annotate(err, "cannot observe the kernel")
	}
	if o.Trust, err = role.ObserveTrust(c.Host.Root, len(facts.Authorities.Relations) > 0); err != nil {
		return o, err
	}
	if model.Leaving(c.Event.Name) {
		return o, nil // removal does not depend on the rest
	}
	o.Predecessor, o.Remarks = predecessor.Leftovers(c.Host.Root), status.Warnings(predecessor.Remarks(c.Host.Root))
	web := ""
	if !facts.Role.Web() {
		tsa, _ := model.ChooseTSA(facts)
		web = tsa.Version
	}
	if err := c.observeRelease(ctx, &o, web); err != nil {
		return o, err
	}
	work := concourse.WorkFolder(o.Shared())
	var there bool
	if o.WorkerID, there = concourse.ReadWorkerID(c.Host.Root, work); !there && facts.Role != model.WebRole {
		o.WorkerID = c.NewID()
	}
	o.KeptName, _ = predecessor.WorkerName(c.Host.Root, work)
	return o, nil
}

// decideRole returns the desired state of the unit in its role.
func (c *Charm) decideRole(ctx context.Context, u role.Observed) (want Desired, err error) {
	defer func() { want.EndsTasks = role.EndsTasks(u.Event, u.Facts) }()
	if model.Leaving(u.Event) {
		want.Desired = desireRemoval(u)
	} else {
		if want, err = c.decideHalves(ctx, u); err != nil {
			return want, err
		}
		if facts, differ := u.Facts.WithGPUs(want.Worker.GPUs); differ && u.Facts.Role == model.AllRole {
			u.Facts = facts // otherwise the web would know them from the next hook on
			if want, err = c.decideHalves(ctx, u); err != nil {
				return want, err
			}
		}
		if u.Facts.Role == model.AllRole {
			want.AddPebble(u)
		}
		want.Resources = append(want.Resources, commandLink{u.CharmDir})
	}
	// finishToolkit in Hook has done this before. It is repeated for commands that only
	// print the plan.
	want.Resources = append([]plan.Resource{amd.ToolkitKept()}, want.Resources...)
	return want, nil
}

// decideHalves returns the desired state of the web and the worker of a unit.
func (c *Charm) decideHalves(ctx context.Context, u role.Observed) (want Desired, err error) {
	if u.Facts.Role.Web() {
		err = c.decideWeb(ctx, u, &want)
	}
	if err == nil && u.Facts.Role != model.WebRole {
		err = c.decideWorker(ctx, u, &want)
	}
	return want, err
}

// decideWeb adds the desired state of the web.
func (c *Charm) decideWeb(ctx context.Context, u role.Observed, want *Desired) error {
	u.Half = model.WebRole
	if u.Facts.Role.Worker() && u.Facts.Web != nil {
		key, err := role.ReadOptional(c.Host.Root, concourse.WorkerKeyPublic)
		if err != nil {
			return err
		}
		u.Facts = u.Facts.WithKey(strings.TrimSpace(key))
	}
	o, err := web.Observe(ctx, c.Host, u)
	if err != nil {
		return err
	}
	var removal []plan.Resource
	if u.Facts.Role.Worker() {
		o.BeforeSwitch = worker.DrainBeforeUpgrade(u)
	} else {
		removal = worker.RemoveForWeb(u)
	}
	d := web.Desire(o, removal)
	want.Desired, want.Web = d.Desired, d.Web
	return nil
}

// decideWorker adds the desired state of the worker. On a unit with both roles it comes
// after the web, because the worker registers there.
func (c *Charm) decideWorker(ctx context.Context, u role.Observed, want *Desired) error {
	u.Half, want.HasWorker = model.WorkerRole, true
	o, err := worker.Observe(ctx, c.Host, u)
	if err != nil {
		return err
	}
	if o.WebHas() {
		o.TSA, o.TSAProblems = ownTSA(want.Web), nil
		d := worker.Desire(o, nil)
		want.Desired, want.Worker = want.Desired.And(d.Desired), d.Worker
		return nil
	}
	d := worker.Desire(o, web.RemoveFromWorker(u))
	want.Desired, want.Worker = d.Desired, d.Worker
	return nil
}

// ownTSA returns the web of the same unit, which needs no relation. It is incomplete while
// the web cannot run.
func ownTSA(w web.Web) (t concourse.TSA) {
	secrets, err := concourse.ParseWebSecrets(w.Secret)
	if !w.Up || err != nil {
		return t
	}
	if key, err := secrets.HostPublicKey(); err == nil {
		t.HostKeys = []string{key}
		t.Hosts = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(wellknown.TSAPort))}
	}
	return t
}

// showUnits queries systemd in the background. The returned function waits for the result.
func (c *Charm) showUnits(ctx context.Context) func() (map[string]resource.UnitState, error) {
	type answer struct {
		units map[string]resource.UnitState
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		units, err := resource.ShowUnits(ctx, c.Host, concourse.Unit, concourse.WebUnit, role.PebbleUnit,
			worker.RefreshUnit, worker.RefreshService, worker.PluginUnit, worker.DriverUnit, worker.RecorderUnit)
		done <- answer{units, err}
	}()
	return func() (map[string]resource.UnitState, error) {
		a := <-done
		return a.units, a.err
	}
}

// Desired describes the state that the unit should have. The part of the role that the unit
// does not have is empty.
type Desired struct {
	role.Desired
	Worker    worker.Worker
	Web       web.Web
	HasWorker bool // also on a unit with a web
}

// MainUnit returns the systemd unit of the role, or "".
func (d Desired) MainUnit() string {
	switch {
	case d.Web.Up:
		return concourse.WebUnit
	case d.Worker.Up:
		return concourse.Unit
	}
	return ""
}

// NeedsOperator reports whether only the operator can remove an obstacle to the unit's work.
func (d Desired) NeedsOperator() bool {
	return d.Worker.Driver != nil && len(d.Worker.Driver.Decision.Remedies) > 0 ||
		slices.ContainsFunc(d.Causes, func(c status.Cause) bool { return c.Kind == status.Blocked })
}

package charm

import (
	"context"
	"fmt"
	"time"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
)

// DesireWeb decides what a unit that is a web, and nothing else, should be. It does
// nothing: see DesireWorker.
func DesireWeb(o WebObserved) Desired {
	d := desireWebUnit(o)
	d.Refused = refusals(o.UnitObserved, d)
	return desired(d)
}

func desireWebUnit(o WebObserved) Desired {
	d := Desired{LogLevel: o.Config.LogLevel, Invocation: o.Units[concourse.WebUnit].Invocation,
		WebURL: webURL(o), LocalURL: localURL(o), Shared: o.shared(), Release: o.Release, Request: o.Certify.Request,
		Ports: []juju.Port{juju.TCP(o.Config.WebPort)}}
	if o.TLS {
		d.Ports = append(d.Ports, juju.TCP(o.Config.TLSPort))
	}
	d.Resources = append(d.Resources, charmFiles(o.UnitObserved)...)
	// The web first: what a worker of this unit still ran is lost with the web
	// that it was registered at, but the others wait for this one.
	err := desireWeb(&d, o)
	d.Resources = append(d.Resources, notWorker(o.UnitObserved)...)
	if err == nil {
		desireOwnWorker(&d, o)
	}
	d.takeOver(o.UnitObserved)
	if err == nil {
		err = desireJobExporter(&d, o)
	}
	if err != nil {
		d.Resources = append(d.Resources, impossible{err})
	}
	return d
}

// localURL is for this machine's own programs. With TLS the web still answers
// there: what it sends elsewhere are requests for its external name.
func localURL(o WebObserved) string {
	return fmt.Sprintf("http://127.0.0.1:%d", o.Config.WebPort)
}

// notWorker is a web's unit without what a worker left: its role can change
// when another unit leads (D3, D21).
func notWorker(o UnitObserved) []plan.Resource {
	why := "this unit is the web"
	return []plan.Resource{
		concourse.Drain{State: o.Units[concourse.Unit], Why: why},
		resource.Absent{Path: concourse.UnitFile, Why: why},
		resource.Absent{Path: concourse.EnvFile, Why: why},
		resource.Absent{Path: concourse.TSAHostKey, Why: why},
		resource.Absent{Path: LandedFile, Why: why},
		resource.Absent{Path: workerLimitFile, Why: why},
	}
}

// desireOwnWorker is what a web of mode=auto does about the worker that it was or
// will be: its key is there and published, so that another leader lets it in at
// once; and the web, once it is up, forgets the worker that it was, which would
// look as if it ran for a while yet.
func desireOwnWorker(d *Desired, o WebObserved) {
	if model.ModeOf(o.Facts.Config) == "auto" {
		d.Resources = append(d.Resources, resource.Dir{Path: concourse.ConfigDir, Mode: 0o755}, resource.Dir{Path: concourse.KeyDir, Mode: 0o700},
			concourse.Key{Path: concourse.WorkerKey, Bits: concourse.WorkerKeyBits})
	}
	if !d.Web || o.WorkerID == "" {
		return
	}
	name := workerName(o.KeptName, o.Facts.Unit, o.WorkerID)
	url, user, password := d.LocalURL, o.Config.AdminUser, d.Secret[model.AdminPassword]
	d.Resources = append(d.Resources, resource.Trigger{Name: forgetWorker, Inputs: [][]byte{[]byte(name)}, Tolerate: true,
		Op: "forget the worker " + name, Why: "this unit is the web now",
		Do: func(ctx context.Context) error {
			return forgetOwnWorker(ctx, concourse.NewAPI(url, user, password, ""), url, name)
		}})
}

// forgetOwnWorker waits for the web, which was just started, and takes the
// worker from its list.
func forgetOwnWorker(ctx context.Context, api *concourse.API, url, name string) error {
	for waited := time.Duration(0); concourse.CheckWeb(ctx, url).State != concourse.Healthy && waited < webSettleTime; waited += settlePoll {
		time.Sleep(settlePoll)
	}
	workers, err := api.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.Name != name {
			continue
		}
		if w.State == "running" {
			if err := api.Land(ctx, name); err != nil {
				return err
			}
		}
		return api.Prune(ctx, name)
	}
	return nil
}

// notWeb is a worker's unit without what a web left: its credentials above all.
func notWeb(o UnitObserved) []plan.Resource {
	why := "this unit is a worker"
	paths := concourse.WebFiles(o.shared())
	return []plan.Resource{
		resource.Service{Unit: concourse.WebUnit, State: o.Units[concourse.WebUnit], Why: why},
		resource.Absent{Path: concourse.WebUnitFile, Why: why},
		resource.Absent{Path: paths.Env(), Why: why},
		resource.Absent{Path: webLimitFile, Why: why},
		resource.Absent{Path: paths.KeyDir(), Why: why, Tree: true},
		resource.Absent{Path: resource.StampDir + "/" + forgetWorker + ".stamp", Why: why},
	}
}

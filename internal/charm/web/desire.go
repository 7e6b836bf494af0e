package web

import (
	"context"
	"fmt"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
)

// Desire decides what a unit that is a web should be, and does nothing else: the same
// Observed gives the same Desired, except for functions in resources that cannot be
// compared. gone takes away what the other role left on the unit.
func Desire(o Observed, gone []plan.Resource) Desired {
	d := desireWebUnit(o, gone)
	d.Refused = role.Refusals(o.Observed, d.Up || o.Facts.Web.Database == nil, d.Causes)
	return d
}

func desireWebUnit(o Observed, gone []plan.Resource) Desired {
	d := Desired{Desired: role.Desired{Release: o.Release},
		Web: Web{URL: webURL(o), LocalURL: localURL(o), Route: route(o), Request: o.Certify.Request, Ports: []juju.Port{juju.TCP(o.Config.WebPort)}}}
	if o.TLS {
		d.Ports = append(d.Ports, juju.TCP(o.Config.TLSPort))
	}
	d.Resources = append(d.Resources, role.CharmFiles(o.Observed)...)
	d.TrustAuthorities(o.Observed)
	// The web first: what a worker of this unit still ran is lost with the web
	// that it was registered at, but the others wait for this one.
	err := desireWeb(&d, o)
	d.Resources = append(d.Resources, gone...)
	if err == nil {
		desireOwnWorker(&d, o)
	}
	d.TakeOver(o.Observed)
	if err == nil {
		err = desireJobExporter(&d, o)
	}
	if err != nil {
		d.Resources = append(d.Resources, role.Impossible{Err: err})
	}
	return d
}

// localURL is for this machine's own programs. With TLS the web still answers
// there: what it sends elsewhere are requests for its external name.
func localURL(o Observed) string {
	return fmt.Sprintf("http://127.0.0.1:%d", o.Config.WebPort)
}

// desireOwnWorker is what a web of mode=auto does about the worker that it was or
// will be: its key is there and published, so that another leader lets it in at
// once; and the web, once it is up, forgets the worker that it was, which would
// look as if it ran for a while yet.
func desireOwnWorker(d *Desired, o Observed) {
	if o.Facts.Mode() == "auto" {
		d.Resources = append(d.Resources, resource.Dir{Path: concourse.ConfigDir, Mode: 0o755}, resource.Dir{Path: concourse.KeyDir, Mode: 0o700},
			concourse.Key{Path: concourse.WorkerKey, Bits: concourse.WorkerKeyBits})
	}
	if !d.Up || o.WorkerID == "" {
		return
	}
	name := role.WorkerName(o.KeptName, o.Facts.Unit, o.WorkerID)
	url, user, password := d.LocalURL, o.Config.AdminUser, d.Secret[model.AdminPassword]
	d.Resources = append(d.Resources, resource.Trigger{Name: ForgetWorker, Inputs: [][]byte{[]byte(name)}, Tolerate: true,
		Op: "forget the worker " + name, Why: "this unit is the web now",
		Do: func(ctx context.Context, h host.Host) error {
			return forgetOwnWorker(ctx, h.Clock, concourse.NewAPI(url, user, password, ""), url, name)
		}})
}

// forgetOwnWorker waits for the web, which was just started, and takes the
// worker from its list.
func forgetOwnWorker(ctx context.Context, clock host.Clock, api *concourse.API, url, name string) error {
	awaitWeb(ctx, clock, url)
	workers, err := api.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.Name != name {
			continue
		}
		if w.State == "running" {
			if err := api.Land(ctx, w); err != nil {
				return err
			}
		}
		return api.Prune(ctx, name)
	}
	return nil
}

// awaitWeb waits until a web that was just started answers, up to role.WebSettleTime.
func awaitWeb(ctx context.Context, clock host.Clock, url string) {
	for waited := time.Duration(0); concourse.CheckWeb(ctx, url).State != concourse.Healthy && waited < role.WebSettleTime; waited += role.SettlePoll {
		clock.Sleep(role.SettlePoll)
	}
}

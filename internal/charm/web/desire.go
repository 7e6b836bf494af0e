package web

import (
	"context"
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
)

// Desire decides the state of a web's unit. It is pure: the same Observed gives the same
// Desired, except for functions in resources. cleanup removes the files of the other role.
func Desire(o Observed, cleanup []plan.Resource) Desired {
	d := desireWebUnit(o, cleanup)
	if !o.Facts.Role.Worker() {
		d.AddPebble(o.Observed)
	}
	d.Refused = role.Refusals(o.Observed, d.Up || o.Facts.Web.Database == nil, d.Causes)
	return d
}

func desireWebUnit(o Observed, cleanup []plan.Resource) Desired {
	d := Desired{Desired: role.Desired{Release: o.Release},
		Web: Web{URL: webURL(o), LocalURL: localURL(o), Route: route(o), FleetRoute: fleetRoute(o),
			Request: o.Certify.Request, Ports: []juju.Port{juju.TCP(o.Config.Web.Port)}}}
	if o.TLS {
		d.Ports = append(d.Ports, juju.TCP(o.Config.Web.TLSPort))
	}
	d.Resources = append(d.Resources, role.CharmFiles(o.Observed)...)
	d.TrustAuthorities(o.Observed)
	// The web comes before the cleanup. Tasks of a worker on this unit end with the web of
	// that worker anyway, and all other workers wait for this web.
	err := desireWeb(&d, o)
	d.Resources = append(d.Resources, cleanup...)
	if err == nil {
		desireOwnWorker(&d, o)
	}
	d.Resources = append(d.Resources, o.Predecessor...)
	if err == nil {
		err = desireJobExporter(&d, o)
	}
	if err != nil {
		d.Resources = append(d.Resources, role.Impossible{Err: err})
	}
	return d
}

// localURL returns the URL for programs of this machine. With TLS the web still answers
// there. It redirects only requests for its external name.
func localURL(o Observed) string {
	return fmt.Sprintf("http://127.0.0.1:%d", o.Config.Web.Port)
}

// desireOwnWorker prepares the unit of a mode=auto web for the role of a worker. It creates
// and publishes the worker's key, so that another leader accepts the worker at once. It also
// removes this unit's previous worker from the web's list, which would show it as running
// for a while.
func desireOwnWorker(d *Desired, o Observed) {
	if o.Facts.Mode() == config.ModeAuto {
		d.Resources = append(d.Resources, resource.Dir{Path: concourse.ConfigDir, Mode: 0o755},
			resource.Dir{Path: concourse.KeyDir, Mode: 0o700},
			concourse.Key{Path: concourse.WorkerKey, Bits: beacon.WorkerKeyBits})
	}
	if !d.Up || o.WorkerID == "" || o.Facts.Role.Worker() {
		return
	}
	name := role.WorkerName(o.KeptName, o.Facts.Unit, o.WorkerID)
	url, user, password := d.LocalURL, o.Config.Web.InitialAdminUsername, d.Secret[model.AdminPassword]
	d.Resources = append(d.Resources, resource.Trigger{Name: ForgetWorker, Inputs: [][]byte{[]byte(name)},
		Tolerate: true,
		Op:       "forget the worker " + name, Why: "this unit is the web now",
		Do: func(ctx context.Context, h host.Host) error {
			return forgetOwnWorker(ctx, h.Clock, concourse.NewAPI(url, user, password), url, name)
		}})
}

// forgetOwnWorker waits until the web has started, and removes the worker from its list.
func forgetOwnWorker(ctx context.Context, clock host.Clock, api *concourse.API, url, name string) error {
	awaitWeb(ctx, clock, url) // the request reports a web that is down
	return api.Remove(ctx, name)
}

// awaitWeb waits until a started web answers, at most role.WebSettleTime, and reports whether
// it does.
func awaitWeb(ctx context.Context, clock host.Clock, url string) (up bool) {
	for waited := time.Duration(0); ; waited += role.SettlePoll {
		if up = concourse.CheckWeb(ctx, url).State == concourse.Healthy; up || waited >= role.WebSettleTime {
			return up
		}
		clock.Sleep(role.SettlePoll)
	}
}

// Desired describes the state that a web's unit should have.
type Desired struct {
	role.Desired
	Web
}

// Web holds the part of Desired that only a web has.
type Web struct {
	Up       bool     // it should be running after applying
	Accepted []string // keys of workers that may register
	Cut      []string // keys of workers that left, to be disconnected by applying
	URL      string   // for users
	LocalURL string   // for programs of this machine
	Ports    []juju.Port

	Route      relation.Route // request to a reverse proxy
	FleetRoute relation.Route // the same for the page of all GPUs

	Secret  map[string]string // content of the application's secret, nil if this unit cannot set it
	Request string            // certificate request, PEM

	// If the web is up: its database for Concourse and for the charm's own connections, and
	// its environment.
	Database    concourse.WebDatabase
	Repair      postgres.Config
	Environment map[string]string

	UncheckedFlags bool // applying installs a release that has not checked extra-web-flags

	Jobs bool // concourse-exporter and Concourse's own metrics should be running after applying
}

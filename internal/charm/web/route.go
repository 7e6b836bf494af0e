package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

const (
	webEndpoint   = "haproxy-route"
	fleetEndpoint = "fleet-route"
)

// route returns the request to a reverse proxy for the web.
func route(o Observed) relation.Route {
	r, ok := routeTo(o, o.Facts.Route)
	if !ok {
		return relation.Route{}
	}
	r.Service, r.Port, r.TLS = serviceName(o), o.Config.Web.Port, o.TLS
	if o.TLS {
		r.Port = o.Config.Web.TLSPort
	}
	return r
}

// fleetRoute returns the request for the page of all GPUs. The proxy can serve the page at
// the web's name, because it prefers the longer path. An application's name never has the
// underscore, so the service has a unique name.
func fleetRoute(o Observed) relation.Route {
	r, ok := routeTo(o, o.Facts.FleetRoute)
	if !ok || !role.HasFleetPage(o.Config.Web) {
		return relation.Route{}
	}
	r.Service, r.Port, r.Path = serviceName(o)+"_fleet", wellknown.JobsPort, wellknown.FleetPath
	return r
}

func serviceName(o Observed) string { return o.Facts.Model + "-" + juju.AppOf(o.Facts.Unit) }

// routeTo returns the servers and the name of a route. With mode=auto or all only the leader
// is a web. While the leader has no address, nothing is requested, because the proxy would
// send requests to the workers.
func routeTo(o Observed, l *model.Route) (r relation.Route, ok bool) {
	auto := o.Facts.LeaderIsWeb()
	if l == nil || auto && l.Address == "" {
		return r, false
	}
	r.Hostname = relation.RouteName(o.Config.Web.ExternalURL)
	r.HTTP = strings.HasPrefix(o.Config.Web.ExternalURL, "http://")
	if auto {
		r.Hosts = []string{l.Address}
	}
	return r, true
}

// routeURLs returns the proxy's URLs of the web.
func routeURLs(o Observed) ([]string, error) {
	if o.Facts.Route == nil {
		return nil, nil
	}
	return relation.ParseRoute(o.Facts.Route.Remote, "")
}

// routeCauses warns about a proxy that does not lead to the web or to the page of all GPUs
// yet, or that has another name for the web than external-url.
func routeCauses(o Observed) []status.Cause {
	urls, causes := proxyCauses(o, webEndpoint, o.Facts.Route, "")
	external := o.Config.Web.ExternalURL
	leadsThere := func(url string) bool { return hostOf(url) == hostOf(external) }
	if len(urls) > 0 && external != "" && !slices.ContainsFunc(urls, leadsThere) {
		causes = append(causes, status.Warn(webEndpoint+": %s has another URL than external-url", o.Facts.Route.App).
			Explain("it has the web at %s, and external-url is %s; set external-url to the first one, or to nothing",
				urls[0], external))
	}
	if l := o.Facts.FleetRoute; l != nil && !role.HasFleetPage(o.Config.Web) {
		missing := "enable-metrics=true"
		if o.Config.Web.FleetPage == config.FleetOff {
			missing += " fleet-page=names"
		}
		return append(causes, status.Warn(fleetEndpoint+": the fleet page is off").
			Run(o.Facts.Commands().SetOption(missing)))
	}
	_, fleet := proxyCauses(o, fleetEndpoint, o.Facts.FleetRoute, wellknown.FleetPath)
	return append(causes, fleet...)
}

// proxyCauses returns the proxy's URLs of a path, or a warning why they are missing.
func proxyCauses(o Observed, endpoint string, l *model.Route, path string) ([]string, []status.Cause) {
	if l == nil {
		return nil, nil
	}
	page := "the web"
	if path != "" {
		page = "the fleet page"
	}
	urls, problem := relation.ParseRoute(l.Remote, path)
	switch {
	case problem != nil:
		return nil, []status.Cause{role.WrongData(status.Active, juju.AppOf(o.Facts.Unit), endpoint, l.App, problem)}
	case len(urls) > 0:
		return urls, nil
	case relation.RouteName(o.Config.Web.ExternalURL) == "":
		return nil, []status.Cause{status.Warn("%s: %s has no name for %s", endpoint, l.App, page).
			Explain("set external-url to one with a domain, such as https://ci.example.com")}
	}
	return nil, []status.Cause{status.Warn("%s: %s has no URL for %s yet", endpoint, l.App, page).
		Run("juju status " + l.App)}
}

// hostOf returns the host of a URL, with the port unless it is the scheme's default.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	return strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
}

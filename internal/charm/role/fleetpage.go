package role

import (
	"net"
	"net/url"
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

// FleetPage returns the URL of the page of all GPUs: the URL at the proxy, otherwise on this
// unit if it is a web, or on the web that a worker registers at. It is "" if there is no page.
func FleetPage(f model.Facts, o config.Web) string {
	if f.Web == nil {
		t, _ := model.ChooseTSA(f) // problems are in the worker's status
		return t.FleetPage
	}
	if f.Web.Address == "" || !HasFleetPage(o) {
		return ""
	}
	if f.FleetRoute != nil {
		urls, _ := relation.ParseRoute(f.FleetRoute.Remote, wellknown.FleetPath) // problems are in the web's status
		if len(urls) > 0 {
			return urls[0] + "/"
		}
	}
	return HTTPAddress(f.Web.Address, wellknown.JobsPort) + "/"
}

// HasFleetPage reports whether webs serve the page of all GPUs.
func HasFleetPage(o config.Web) bool { return o.EnableMetrics && o.FleetPage != config.FleetOff }

// StatusPage returns the URL of this worker's status page at the address that the web has of
// the worker. It is "" if that is not known, or a name.
func StatusPage(f model.Facts) string {
	if net.ParseIP(f.Address) == nil {
		return ""
	}
	return HTTPAddress(f.Address, wellknown.GPUsPort) + "/"
}

// HTTPAddress returns the URL of a port without a path.
func HTTPAddress(host string, port int) string {
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(port))}
	return u.String()
}

package role

import (
	"net"
	"net/url"
	"strconv"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
)

// FleetPage returns the URL of the page of all GPUs: on this unit if it is a web, otherwise
// on the web that a worker registers at. It is "" if there is no page.
func FleetPage(f model.Facts, o config.Web) string {
	if f.Web == nil {
		t, _ := model.ChooseTSA(f) // problems are in the worker's status
		return t.FleetPage
	}
	if f.Web.Address == "" || !o.EnableMetrics || o.FleetPage == config.FleetOff {
		return ""
	}
	return HTTPAddress(f.Web.Address, wellknown.JobsPort) + "/"
}

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

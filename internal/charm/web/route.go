package web

import (
	"net/url"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/status"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
)

// route returns the request to a reverse proxy. With mode=auto or all only the leader is a web.
// While the leader has no address, nothing is requested, because the proxy would send
// requests to the workers.
func route(o Observed) relation.Route {
	l := o.Facts.Route
	auto := o.Facts.LeaderIsWeb()
	if l == nil || auto && l.Address == "" {
		return relation.Route{}
	}
	r := relation.Route{Service: o.Facts.Model + "-" + juju.AppOf(o.Facts.Unit), Port: o.Config.Web.Port, TLS: o.TLS,
		Hostname: relation.RouteName(o.Config.Web.ExternalURL),
		HTTP:     strings.HasPrefix(o.Config.Web.ExternalURL, "http://")}
	if o.TLS {
		r.Port = o.Config.Web.TLSPort
	}
	if auto {
		r.Hosts = []string{l.Address}
	}
	return r
}

// routeURLs returns the proxy's URLs of the web.
func routeURLs(o Observed) ([]string, error) {
	if o.Facts.Route == nil {
		return nil, nil
	}
	return relation.ParseRoute(o.Facts.Route.Remote)
}

// routeCauses warns about a proxy that does not lead to the web yet, or that has another
// name for it than external-url.
func routeCauses(o Observed) []status.Cause {
	l := o.Facts.Route
	if l == nil {
		return nil
	}
	urls, problem := routeURLs(o)
	external := o.Config.Web.ExternalURL
	leadsThere := func(url string) bool { return hostOf(url) == hostOf(external) }
	const endpoint = "haproxy-route"
	switch {
	case problem != nil:
		return []status.Cause{role.WrongData(status.Active, juju.AppOf(o.Facts.Unit), endpoint, l.App, problem)}
	case len(urls) == 0 && relation.RouteName(external) == "":
		return []status.Cause{status.Warn(endpoint+": %s has no name for the web", l.App).
			Explain("set external-url to one with a domain, such as https://ci.example.com")}
	case len(urls) == 0:
		return []status.Cause{status.Warn(endpoint+": %s has no URL for the web yet", l.App).
			Run("juju status " + l.App)}
	case external != "" && !slices.ContainsFunc(urls, leadsThere):
		return []status.Cause{status.Warn(endpoint+": %s has another URL than external-url", l.App).
			Explain("it has the web at %s, and external-url is %s; set external-url to the first one, or to nothing",
				urls[0], external)}
	}
	return nil
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

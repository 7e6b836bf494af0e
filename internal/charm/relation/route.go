package relation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// Route holds the request of a web to a reverse proxy: haproxy-route (library haproxy
// haproxy_route v2, requirer). The zero Route requests nothing.
type Route struct {
	Service  string // unique name of the web at the proxy
	Port     int
	TLS      bool     // the port speaks TLS, so the proxy must trust its authority
	Hosts    []string // IP addresses of the servers; if empty, the addresses of all units
	Hostname string   // host name for users; if empty, the proxy chooses it
	HTTP     bool     // also serve users without TLS
	Path     string   // of the page, such as /fleet; if empty, the web has the whole host name
}

const (
	// routeHealth answers at once, without a login and without the database.
	routeHealth = "/api/v1/info"
	// exporterHealth is the health check of concourse-exporter, below the path of its page.
	exporterHealth = "/-/healthy"
	// routeSilence is the time in seconds that a server may send nothing. A build's page and
	// fly wait for the next line of a step. The proxy's default of 60 would end that.
	routeSilence = 3600
)

type routeCheck struct {
	Interval int    `json:"interval"` // seconds
	Rise     int    `json:"rise"`
	Fall     int    `json:"fall"`
	Path     string `json:"path"`
}

type routeTimeout struct {
	Server int `json:"server"` // seconds
}

// Databag returns the application's databag, with values in JSON. An empty value removes a key.
func (r Route) Databag() (map[string]string, error) {
	bag := map[string]string{"service": "", "ports": "", "protocol": "", "hosts": "", "hostname": "",
		"paths": "", "allow_http": "", "check": "", "timeout": ""}
	if r.Port == 0 {
		return bag, nil
	}
	check := routeCheck{Interval: 10, Rise: 2, Fall: 3, Path: routeHealth}
	values := map[string]any{"service": r.Service, "ports": []int{r.Port},
		"timeout": routeTimeout{Server: routeSilence}}
	if r.Path != "" {
		check.Path = r.Path + exporterHealth
		values["paths"] = []string{r.Path}
	}
	values["check"] = check
	if r.TLS {
		values["protocol"] = "https"
	}
	if len(r.Hosts) > 0 {
		values["hosts"] = r.Hosts
	}
	if r.Hostname != "" {
		values["hostname"] = r.Hostname
	}
	if r.HTTP {
		values["allow_http"] = true
	}
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		bag[key] = string(text)
	}
	return bag, nil
}

// RouteUnit returns a unit's databag. The library refuses the whole relation if a unit has
// no address. So each unit publishes it, including units that Hosts leaves out.
func RouteUnit(address string) map[string]string {
	if address == "" {
		return map[string]string{"address": ""}
	}
	return map[string]string{"address": `"` + address + `"`}
}

// routeName matches a host name that the library accepts: two labels or more.
var routeName = lazyregexp.New(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+` +
	`[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])$`)

// RouteName returns the host name of a URL under which the proxy can route to the web. It
// returns "" for an address and for a name without a domain.
func RouteName(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(u.Hostname()) > maxHostName || !routeName().MatchString(u.Hostname()) {
		return ""
	}
	return u.Hostname()
}

// maxEndpoints exceeds the length of any list of endpoints in JSON.
const maxEndpoints = 16 << 10

// ParseRoute reads the databag of haproxy-route's provider (its application). It returns
// the URLs of the requested path without a trailing slash. If there are no URLs and no
// problem, the proxy has no name for them yet, or refuses the request.
func ParseRoute(app map[string]string, path string) (endpoints []string, problem error) {
	text := app["endpoints"]
	if text == "" {
		return nil, nil
	}
	if len(text) > maxEndpoints {
		return nil, fmt.Errorf("endpoints: it is longer than %d bytes", maxEndpoints)
	}
	if json.Unmarshal([]byte(text), &endpoints) != nil {
		return nil, errors.New("endpoints: want a JSON list of URLs")
	}
	for i, e := range endpoints {
		if err := checkURL(e); err != nil {
			return nil, fmt.Errorf("endpoints: %w", err)
		}
		endpoints[i] = strings.TrimRight(e, "/")
		switch u, err := url.Parse(endpoints[i]); {
		case err == nil && u.Path == path:
		case path != "":
			return nil, fmt.Errorf("endpoints: want the path %s", path)
		default:
			return nil, errors.New("endpoints: it has a path, and the web needs a separate name")
		}
	}
	return endpoints, nil
}

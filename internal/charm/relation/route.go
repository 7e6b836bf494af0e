package relation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Route is what a web asks a reverse proxy for by haproxy-route (library haproxy
// haproxy_route v2, requirer). The zero Route asks for nothing.
type Route struct {
	Service  string // the web's name at the proxy, where no two have the same
	Port     int
	TLS      bool     // the port speaks TLS: the proxy has to trust its certificate's authority
	Hosts    []string // IP addresses to send requests to; without any, all that units tell
	Hostname string   // by which people ask for the web; "" leaves it to the proxy
	HTTP     bool     // people may ask without TLS, too
}

const (
	// routeHealth answers anybody, at once and without the database.
	routeHealth = "/api/v1/info"
	// routeSilence is for how many seconds a server may say nothing: a build's page and
	// fly wait for a step's next line, and the proxy's own limit of 60 would end that.
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

// Bag is the application's bag: each value is JSON. A key without one is removed.
func (r Route) Bag() (map[string]string, error) {
	bag := map[string]string{"service": "", "ports": "", "protocol": "", "hosts": "", "hostname": "", "allow_http": "", "check": "", "timeout": ""}
	if r.Port == 0 {
		return bag, nil
	}
	values := map[string]any{"service": r.Service, "ports": []int{r.Port},
		"check": routeCheck{Interval: 10, Rise: 2, Fall: 3, Path: routeHealth}, "timeout": routeTimeout{Server: routeSilence}}
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

// RouteUnit is a unit's bag. One without an address has the library refuse the whole
// relation, so each unit tells its own, those that Hosts leaves out as well.
func RouteUnit(address string) map[string]string {
	if address == "" {
		return map[string]string{"address": ""}
	}
	return map[string]string{"address": `"` + address + `"`}
}

// routeName is what the library takes for a host's name: two labels or more.
var routeName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])$`)

// RouteName is the name in a URL by which the proxy can tell the web from others; ""
// where there is none: it is an address, or a name without a domain.
func RouteName(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(u.Hostname()) > maxHostName || !routeName.MatchString(u.Hostname()) {
		return ""
	}
	return u.Hostname()
}

// maxEndpoints is longer than any list of them in JSON.
const maxEndpoints = 16 << 10

// ParseRoute reads the application's bag of haproxy-route's provider: the URLs by which
// it has the web, without a slash at the end. None without a problem is a proxy that has
// it by no name yet, or that refuses what it was told.
func ParseRoute(app map[string]string) (endpoints []string, problem error) {
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
		if u, err := url.Parse(endpoints[i]); err != nil || u.Path != "" {
			return nil, errors.New("endpoints: it has a path, and the web needs a name of its own")
		}
	}
	return endpoints, nil
}

package resource

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Proxies are the proxies for what is fetched from outside. The URLs may hold
// passwords: they travel in environments, never in argv or logs. All empty
// means those of the process's own environment.
type Proxies struct{ HTTP, HTTPS, No string }

// Env is the proxies as commands read them, empty where none is given.
func (p Proxies) Env() []string {
	var env []string
	for _, kv := range [][2]string{{"http_proxy", p.HTTP}, {"https_proxy", p.HTTPS}, {"no_proxy", p.No}} {
		if kv[1] != "" {
			env = append(env, kv[0]+"="+kv[1])
		}
	}
	return env
}

// Func is the proxies as http.Transport reads them. A host that No names is
// reached directly: "*", a name with all names below it, an address, or a
// network in CIDR form, with commas between.
func (p Proxies) Func() func(*http.Request) (*url.URL, error) {
	if p == (Proxies{}) {
		return http.ProxyFromEnvironment
	}
	return func(r *http.Request) (*url.URL, error) {
		proxy := p.HTTP
		if r.URL.Scheme == "https" {
			proxy = p.HTTPS
		}
		if proxy == "" || p.direct(r.URL) {
			return nil, nil
		}
		return url.Parse(proxy)
	}
}

func (p Proxies) direct(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	isAddr := err == nil
	if host == "localhost" || isAddr && addr.IsLoopback() {
		return true
	}
	for rule := range strings.SplitSeq(strings.ToLower(p.No), ",") {
		rule = strings.TrimSpace(rule)
		if name, port, err := net.SplitHostPort(rule); err == nil {
			if port != u.Port() {
				continue
			}
			rule = name
		}
		rule = strings.TrimPrefix(strings.TrimPrefix(rule, "*."), ".")
		switch prefix, err := netip.ParsePrefix(rule); {
		case rule == "":
		case rule == "*", rule == host:
			return true
		case err == nil && isAddr && prefix.Contains(addr.Unmap()):
			return true
		case !isAddr && strings.HasSuffix(host, "."+rule):
			return true
		}
	}
	return false
}

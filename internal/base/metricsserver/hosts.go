package metricsserver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// guarded serves h under names of this machine only. A site in a browser can give its own
// name the address of this machine (DNS rebinding), and would then read the answers. It
// cannot do that with an address, a name without a dot or a private name. Over TLS the
// certificate decides. No browser guesses the type of an answer.
func (s *Server) guarded(h http.Handler) http.Handler {
	own := s.flags.hosts
	if name, err := os.Hostname(); err == nil {
		hosts, _ := host.Root("/").ReadText("/etc/hosts")
		resolv, _ := host.Root("/").ReadText("/etc/resolv.conf")
		own = append(machineNames(name, hosts, resolv), own...)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		name := hostName(r.Host)
		probed := strings.HasSuffix(r.URL.Path, healthPath) // by a proxy under any name
		if r.TLS != nil || probed || isPrivate(name) || slices.Contains(own, name) || slices.Contains(s.names(), name) {
			h.ServeHTTP(w, r)
			return
		}
		WriteText(w, http.StatusMisdirectedRequest, fmt.Sprintf("cannot serve %.100q: it is not a name of this "+
			"machine; use the address of the machine. An exporter that you start yourself also accepts the names in "+
			"--web.hosts\n", name))
	})
}

// names returns the names in the URLs that lead to this program.
func (s *Server) names() (all []string) {
	if s.URLs == nil {
		return nil
	}
	for _, text := range s.URLs() {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			all = append(all, hostName(u.Host))
		}
	}
	return all
}

// hostName returns the name or address of a Host header.
func hostName(hostPort string) string {
	name, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// privateEnds lists ends of names that cannot be registered (RFC 6761, RFC 6762, RFC 8375, and
// names that ICANN does not delegate).
var privateEnds = []string{".localhost", ".local", ".internal", ".home.arpa", ".test", ".lan", ".home", ".corp", ".lxd",
	".maas", ".svc"}

// isPrivate reports whether no other site can have the name. An empty one comes from a
// program that sends no Host.
func isPrivate(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || !strings.Contains(name, ".") ||
		slices.ContainsFunc(privateEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// machineNames returns the names of a machine: its host name, alone and with the domains that
// resolv.conf searches, and the names beside it in the file hosts.
func machineNames(name, hosts, resolv string) []string {
	name = strings.ToLower(name)
	all := []string{name}
	for line := range strings.Lines(resolv) {
		if f := strings.Fields(line); len(f) > 1 && (f[0] == "search" || f[0] == "domain") {
			for _, domain := range f[1:] {
				all = append(all, name+"."+strings.ToLower(strings.Trim(domain, ".")))
			}
		}
	}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(strings.ToLower(line), "#")
		if f := strings.Fields(line); slices.Contains(f, name) {
			all = append(all, f[1:]...)
		}
	}
	return all
}

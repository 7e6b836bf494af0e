package worker

import (
	"errors"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// The files with name servers. The second has those of systemd-resolved, which writes only
// its address on the loopback interface into the first.
const (
	resolvConf   = "/etc/resolv.conf"
	resolvedConf = "/run/systemd/resolve/resolv.conf"
)

// machineNameServers returns the name servers behind a resolver that listens only on this
// machine, and none if Concourse finds them itself: it copies resolv.conf for tasks, without
// servers on the loopback interface, which a task cannot reach. Concourse 8.2.5 looks no further.
func machineNameServers(r host.Root) ([]string, error) {
	if servers, err := nameServers(r, resolvConf); err != nil || len(servers) > 0 {
		return nil, err
	}
	return nameServers(r, resolvedConf)
}

// nameServers returns the servers of a file that other machines reach, too.
func nameServers(r host.Root, file string) (servers []string, err error) {
	data, err := r.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil && a.Zone() == "" && !a.IsLoopback() && !a.IsUnspecified() {
			servers = append(servers, a.String())
		}
	}
	return servers, err
}

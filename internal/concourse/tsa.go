package concourse

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// TSA describes the SSH servers of the webs. A worker registers with one of them, which
// Concourse chooses at random, and with another one when that fails.
type TSA struct {
	Hosts     []string // host:port, IPv6 in brackets
	HostKeys  []string // public keys, each one OpenSSH line without comment
	Version   string   // the first web's Concourse, x.y.z, or "" if unknown
	FleetPage string   // URL of the first web's page of all GPUs, "" for none
}

// Complete reports whether a worker has everything to register.
func (t TSA) Complete() bool { return len(t.Hosts) > 0 && len(t.HostKeys) > 0 }

// HostKeyFile returns the file with the servers' keys.
func (t TSA) HostKeyFile() resource.File {
	return resource.File{Path: TSAHostKey, Data: []byte(strings.Join(t.HostKeys, "\n") + "\n"), Mode: 0o644}
}

// ParseTSA reads the databag of one web unit. Another machine wrote it, so each value is
// checked before it becomes a line of a file. An invalid value is a problem and left empty.
// A missing value is empty only.
func ParseTSA(databag map[string]string) (t TSA, problems []string) {
	var err error
	bad := func(key string, err error) {
		if err != nil {
			problems = append(problems, key+": "+err.Error())
		}
	}
	if v := strings.TrimSpace(databag["tsa-host"]); v != "" {
		var host string
		if host, err = beacon.HostPort(v); err == nil {
			t.Hosts = []string{host}
		}
		bad("tsa-host", err)
	}
	if v := strings.TrimSpace(databag["tsa-public-key"]); v != "" {
		var key string
		if key, err = beacon.KeyLine(v); err == nil {
			t.HostKeys = []string{key}
		}
		bad("tsa-public-key", err)
	}
	if v := strings.TrimSpace(databag["concourse-version"]); v != "" {
		if err = release.CheckVersion(v); err == nil {
			t.Version = v
		}
		bad("concourse-version", err)
	}
	if v := strings.TrimSpace(databag["fleet-page"]); v != "" {
		if err = checkPage(v); err == nil {
			t.FleetPage = v
		}
		bad("fleet-page", err)
	}
	return t, problems
}

// maxPage exceeds the length of a page's URL.
const maxPage = 300

// checkPage returns an error for a URL that could lead a link elsewhere than to a page.
func checkPage(s string) error {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxPage || strings.ContainsAny(s, " \"'\\{") || u.User != nil || u.RawQuery != "" ||
		u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !strings.HasSuffix(u.Path, "/") {
		return fmt.Errorf("%.100q is not a URL such as http://10.0.0.10:9358/", s)
	}
	return nil
}

// FindTSA joins the complete databags of web units, in the units' order, so that the result
// is equal in all hooks. Version and page are those of the first one. The problems name the
// unit.
func FindTSA(bags map[string]map[string]string) (t TSA, problems []string) {
	for _, u := range slices.SortedFunc(maps.Keys(bags), compareUnits) {
		found, bad := ParseTSA(bags[u])
		for _, p := range bad {
			problems = append(problems, u+" "+p)
		}
		switch {
		case !found.Complete():
		case !t.Complete():
			t = found
		default:
			t.Hosts, t.HostKeys = join(t.Hosts, found.Hosts), join(t.HostKeys, found.HostKeys)
		}
	}
	return t, problems
}

// join appends the texts of more that all lacks.
func join(all, more []string) []string {
	for _, text := range more {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func compareUnits(a, b string) int {
	x, m, _ := strings.Cut(a, "/")
	y, n, _ := strings.Cut(b, "/")
	i, _ := strconv.Atoi(m)
	j, _ := strconv.Atoi(n)
	if c := strings.Compare(x, y); c != 0 {
		return c
	}
	return i - j
}

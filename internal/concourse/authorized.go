package concourse

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// fromOption is the comment of keys that come from the option. Without this comment, a key
// removed from the option would look like one that an operator added.
const fromOption = "extra-worker-keys"

// Authorized returns the file of the worker keys that may register (D19): keys, the
// option's keys and the lines of others unchanged. Each key occurs once, and the file is
// sorted, so that equal keys give equal bytes (D16). A text that is not an OpenSSH public
// key is left out, because the reader of the databag has reported it. Without a key the
// file is empty, because the web does not start without a file.
//
// A running web reads the file again at SIGHUP, without a restart. A connected worker stays
// connected until CutOff.
func (p WebPaths) Authorized(keys, option []string, others ...string) resource.File {
	lines := map[string]bool{}
	for _, k := range keys {
		if line, err := beacon.KeyLine(strings.TrimSpace(k)); err == nil {
			lines[line+"\n"] = true
		}
	}
	for _, k := range option {
		if !lines[k+"\n"] {
			lines[k+" "+fromOption+"\n"] = true
		}
	}
	for _, line := range others {
		lines[line+"\n"] = true
	}
	data := strings.Join(slices.Sorted(maps.Keys(lines)), "")
	return resource.File{Path: p.AuthorizedKeys(), Data: []byte(data), Mode: 0o644, Owner: WebUser}
}

// teamKeys holds the entry of a team in TeamKeys, as Concourse reads it (tsa/tsacmd).
type teamKeys struct {
	Team string   `yaml:"team"`
	Keys []string `yaml:"ssh_keys"`
}

// Teams returns the file of the keys that may register for one team only. A running web
// reads it again as it does Authorized. A key that is in both files is valid for all teams.
func (p WebPaths) Teams(keys map[string][]string) (resource.File, error) {
	var all []teamKeys
	for _, team := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, teamKeys{team, keys[team]})
	}
	data, err := yaml.Marshal(all)
	return resource.File{Path: p.TeamKeys(), Data: data, Mode: 0o644, Owner: WebUser}, err
}

// OtherKeys returns the lines with keys that are not known. An operator added them for
// workers that are not in Juju. Lines that no worker could register with are left out.
func OtherKeys(existing []byte, known []string) (others []string) {
	seen := map[string]bool{}
	for _, k := range known {
		seen[strings.TrimSpace(k)] = true
	}
	for line := range strings.Lines(string(existing)) {
		line = strings.TrimSpace(line)
		if line == "" || seen[line] {
			continue
		}
		key, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || comment == fromOption {
			continue
		}
		plain := string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key)))
		if !seen[plain] {
			others = append(others, line)
		}
		seen[plain] = true
	}
	return others
}

package concourse

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/base/resource"
)

// fromOption is the comment of the keys that are an option's: without it, one that is
// taken out of the option would count as somebody else's.
const fromOption = "extra-worker-keys"

// Authorized is the file of the worker keys that may register: these (D19) and the
// option's, each once, and others' lines as they are; sorted, so that the same
// keys give the same bytes (D16). What is no OpenSSH line of keys is left out;
// whoever reads it from a databag has said so already. Without a key the file is
// empty: the web does not start without a file. A running web reads it again at
// SIGHUP, without a restart; a worker that is connected stays so until CutOff.
func (p WebPaths) Authorized(keys, option []string, others ...string) resource.File {
	lines := map[string]bool{}
	for _, k := range keys {
		if line, err := keyLine(strings.TrimSpace(k)); err == nil {
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

// teamKeys is a team in TeamKeys, as Concourse reads it (tsa/tsacmd).
type teamKeys struct {
	Team string   `yaml:"team"`
	Keys []string `yaml:"ssh_keys"`
}

// Teams is the file of the keys that may register for one team alone, by team: a running
// web reads it again as it does Authorized. A key that is in both counts for all teams.
func (p WebPaths) Teams(keys map[string][]string) (resource.File, error) {
	var all []teamKeys
	for _, team := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, teamKeys{team, keys[team]})
	}
	data, err := yaml.Marshal(all)
	return resource.File{Path: p.TeamKeys(), Data: data, Mode: 0o644, Owner: WebUser}, err
}

// OtherKeys are the lines of such a file whose key is none of the known ones:
// somebody added them, for workers that Juju does not know. What no worker could
// register by is none.
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

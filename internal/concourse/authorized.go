package concourse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
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

// Key manages an RSA key pair as Concourse's key options need it: PKCS#1 PEM in Path, 0600,
// and one OpenSSH line in Path.pub, 0644. An existing key is kept. An unusable key is left
// unchanged and reported.
type Key struct {
	Path string
	Bits int // of a new key
}

// Diff implements plan.Resource.
func (k Key) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	data, err := h.ReadFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Plan{{Op: "make key " + k.Path, Why: "missing",
			Do: func(context.Context) error { return k.make(h.Root) }}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", k.Path, err)
	}
	line, err := publicLine(k.Path, data)
	if err != nil {
		return plan.Plan{{Op: "use key " + k.Path, Why: "there", Do: func(context.Context) error { return err }}}, nil
	}
	return plan.Diff(ctx, h,
		resource.File{Path: k.Path, Data: data, Mode: 0o600},
		resource.File{Path: k.Path + ".pub", Data: []byte(line + "\n"), Mode: 0o644})
}

// make writes the public half first. A public half without a private one is made again, and
// a private key is never replaced.
func (k Key) make(root host.Root) error {
	private, err := beacon.NewKey(k.Bits)
	if err != nil {
		return err
	}
	line, err := publicLine(k.Path, private)
	if err != nil {
		return err
	}
	if err := root.WriteFile(k.Path+".pub", []byte(line+"\n"), 0o644); err != nil {
		return err
	}
	return root.WriteFile(k.Path, private, 0o600)
}

// KeyProblem returns why Concourse can't use the text of a private key, or "" if it can.
func KeyProblem(private string) string {
	_, problem := beacon.PublicLine([]byte(private))
	return problem
}

// publicLine derives the OpenSSH line of the private key in path.
func publicLine(path string, private []byte) (string, error) {
	line, problem := beacon.PublicLine(private)
	if problem != "" {
		return "", &KeyError{Path: path, Problem: problem}
	}
	return line, nil
}

// KeyError reports a private key that Concourse can't use.
type KeyError struct{ Path, Problem string }

func (e *KeyError) Error() string { return fmt.Sprintf("cannot use %s: %s", e.Path, e.Problem) }

// Remedy returns the cause with a way to fix it.
func (e *KeyError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("cannot use %s", e.Path).
		Explain("%s; put the right key there, or move it away and a new key is made", e.Problem).
		Fix(fmt.Sprintf("on the unit run: sudo mv %s %s.broken", e.Path, e.Path))
}

// Package release installs a Concourse release on a machine. It finds, downloads or takes
// it from the attached resource, verifies and unpacks it, and switches one link to it. It
// also rolls back a failed release and cleans up, with or without shared storage. Release
// describes which release and its source. Install is the plan.Resource that installs it.
// The package never decides which programs of it run.
package release

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// Upstream is Concourse's download location of releases.
const Upstream = "https://github.com/concourse/concourse/releases/download"

// Release describes the wanted Concourse release. It comes from the attached resource if
// present, otherwise from Mirror. Release is data; Observe adds facts that only the machine
// has.
type Release struct {
	Version  string // x.y.z; "" accepts any version of a resource
	Resource string // tarball as this process opens it; missing or empty: none
	Mirror   string // base URL instead of Upstream; "" for Upstream
	SHA256   string // of the tarball, lower-case hex; "" if the operator gave none
	Arch     string // amd64 or arm64
	Token    string // option github-token, only for GitHub's API; "" without
	Proxy    resource.Proxies
	Shared   bool       // HomeDir is shared storage, see SharedStorage
	Unit     string     // this unit, "worker/0"; required if Shared
	api      string     // "": upstreamAPI
	upstream string     // "": Upstream
	table    []checksum // nil: checksums()
	seen     origin     // Resource as observed, with its hash
	avoid    Failed     // not used while it is the wanted one; empty: none
}

// Observe adds the facts that a run looks up once: a release that failed here, and the hash
// of the attached resource, which takes seconds.
func Observe(root host.Root, r Release) (Release, error) {
	r.avoid = readFailed(root)
	all, err := releases(root)
	if err != nil {
		return r, err
	}
	file, err := r.attached(all)
	if file != nil {
		r.seen = *file
	}
	return r, err
}

// target describes the wanted release, as far as it is known before it is installed.
type target struct {
	id        string
	installed bool   // complete below Dir
	from      origin // of the release if installed; of the resource if present
	resource  bool
	back      bool // the previous release, because the wanted one failed here
}

// ID returns the name of the folder below Dir that Link names once the release is
// installed. It is equal before and after, so it is an input of the trigger that restarts
// the worker.
func (r Release) ID(root host.Root) (string, error) {
	t, err := r.target(root)
	return t.id, err
}

// target determines the release to use and whether it is installed.
func (r Release) target(root host.Root) (target, error) {
	t, err := r.wanted(root)
	if err != nil {
		return t, err
	}
	return r.instead(root, t), nil
}

// wanted returns the release that the options request.
func (r Release) wanted(root host.Root) (target, error) {
	if err := r.check(); err != nil {
		return target{}, err
	}
	all, err := releases(root)
	if err != nil {
		return target{}, err
	}
	file, err := r.attached(all)
	if err != nil {
		return target{}, err
	}
	if file != nil {
		if o, ok := findRelease(all, func(o origin) bool { return o.SHA256 == file.SHA256 }); ok {
			file.Version = o.Version
			return target{id: o.ID, installed: true, from: *file, resource: true}, nil
		}
		return target{id: "file-" + file.SHA256[:12], from: *file, resource: true}, nil
	}
	fits := func(o origin) bool { return o.Version == r.Version && (r.SHA256 == "" || r.SHA256 == o.SHA256) }
	if id, ok := currentRelease(root); ok {
		if o, ok := findRelease(all, func(o origin) bool { return o.ID == id && fits(o) }); ok {
			return target{id: id, installed: true, from: o}, nil
		}
	}
	if o, ok := findRelease(all, fits); ok {
		return target{id: o.ID, installed: true, from: o}, nil
	}
	id := r.Version
	if r.SHA256 != "" {
		id += "-" + r.SHA256[:12]
	}
	return target{id: id}, nil
}

// attached describes the resource, or returns nil if it is missing. The hash identifies it,
// because Juju gives every revision the same path.
func (r Release) attached(all []origin) (*origin, error) {
	if r.Resource == "" {
		return nil, nil
	}
	st, err := os.Stat(r.Resource)
	if err == nil && st.Size() == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the attached release: %w", err)
	}
	o := origin{File: r.Resource, Size: st.Size(), Modified: st.ModTime().UTC()}
	same := func(k origin) bool {
		return k.File == o.File && k.Size == o.Size && k.Modified.Equal(o.Modified)
	}
	if k, ok := findRelease(all, same); ok {
		o.SHA256 = k.SHA256
	} else if same(r.seen) {
		o.SHA256 = r.seen.SHA256
	} else if o.SHA256, err = hashFile(r.Resource); err != nil {
		return nil, fmt.Errorf("cannot use the attached release: %w", err)
	}
	return &o, nil
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// check rejects programming errors of the caller, and values that are not safe as a path.
// Options have been validated before.
func (r Release) check() error {
	if r.Version != "" || r.Resource == "" {
		if err := CheckVersion(r.Version); err != nil {
			return fmt.Errorf("cannot plan the release: %w", err)
		}
	}
	if r.Arch != "amd64" && r.Arch != "arm64" {
		return fmt.Errorf("cannot plan the release: Concourse has none for %q, only for amd64 and arm64", r.Arch)
	}
	if r.SHA256 != "" && !sumForm().MatchString(r.SHA256) {
		return fmt.Errorf("cannot plan the release: %q is not a SHA-256", r.SHA256)
	}
	if r.Shared && !plainName(strings.Replace(r.Unit, "/", "-", 1)) {
		return fmt.Errorf("cannot plan the release: %q is not a unit, which shared storage needs", r.Unit)
	}
	return nil
}

// name returns the name of the tarball upstream and on mirrors.
func (r Release) name() string { return fmt.Sprintf("concourse-%s-linux-%s.tgz", r.Version, r.Arch) }

// url returns the address of the tarball.
func (r Release) url() (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(cmp.Or(r.Mirror, r.upstream, Upstream), "/"))
	if err != nil {
		return nil, errors.New("cannot use release-mirror: it is not a URL")
	}
	return u.JoinPath("v"+r.Version, r.name()), nil
}

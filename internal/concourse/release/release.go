// Package release is how a Concourse release gets on a machine: found, downloaded
// or taken from the attached resource, verified, unpacked, switched to by one link,
// gone back from when it fails here, and cleaned up, with storage that units share
// or without. Release says which and from where, Install is a plan.Resource that
// brings it; nothing here knows what is run of it.
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

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
)

// Upstream is where Concourse publishes its releases.
const Upstream = "https://github.com/concourse/concourse/releases/download"

// Release is the Concourse release that is wanted. It comes from the attached
// resource where there is one, else from Mirror. It is data, and Observe adds to it
// what only the machine tells.
type Release struct {
	Version  string // x.y.z; with a resource "" takes whatever version it is
	Resource string // tarball as this process opens it; "" or an empty file: none
	Mirror   string // base URL in place of Upstream, "" for Upstream
	SHA256   string // of the tarball, lower-case hex; "" where the operator gave none
	Arch     string // amd64 or arm64
	Token    string // option github-token, for GitHub's API alone; "" without
	Proxy    resource.Proxies
	Shared   bool       // HomeDir is shared storage, see SharedStorage
	Unit     string     // this unit, "worker/0"; needed where Shared
	api      string     // "": upstreamAPI
	upstream string     // "": Upstream
	table    []checksum // nil: checksums()
	seen     origin     // Resource as it was observed, with its hash
	avoid    Failed     // is not used as long as it is the one that is wanted; empty: none
}

// Observe is the release with what a run has to look up once: whether one failed
// here, and the hash of the attached resource, which takes seconds.
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

// target is the release that is wanted, as far as it is known before it is
// there.
type target struct {
	id        string
	installed bool   // complete below Dir
	from      origin // of the release where installed; of the resource where there is one
	resource  bool
	back      bool // the release before, as the wanted one failed here
}

// ID names the folder below Dir that Link names once the
// release is installed. It is the same before and after, so it is an input of
// the trigger that restarts the worker.
func (r Release) ID(root host.Root) (string, error) {
	t, err := r.target(root)
	return t.id, err
}

// target finds out which release is to be used and whether it is there.
func (r Release) target(root host.Root) (target, error) {
	t, err := r.wanted(root)
	if err != nil {
		return t, err
	}
	return r.instead(root, t), nil
}

// wanted is the release as the options say.
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

// attached describes the resource, nil where there is none. Its hash is its
// identity: Juju gives every revision the same path.
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

// check refuses what would be a programming error of the caller, or worse a
// path: options have been validated before.
func (r Release) check() error {
	if r.Version != "" || r.Resource == "" {
		if err := CheckVersion(r.Version); err != nil {
			return fmt.Errorf("cannot plan the release: %w", err)
		}
	}
	if r.Arch != "amd64" && r.Arch != "arm64" {
		return fmt.Errorf("cannot plan the release: Concourse has none for %q, only for amd64 and arm64", r.Arch)
	}
	if r.SHA256 != "" && !sumForm.MatchString(r.SHA256) {
		return fmt.Errorf("cannot plan the release: %q is not a SHA-256", r.SHA256)
	}
	if r.Shared && !plainName(strings.Replace(r.Unit, "/", "-", 1)) {
		return fmt.Errorf("cannot plan the release: %q is no unit, which shared storage needs", r.Unit)
	}
	return nil
}

// name is the tarball's, as upstream and mirrors have it.
func (r Release) name() string { return fmt.Sprintf("concourse-%s-linux-%s.tgz", r.Version, r.Arch) }

// url is where the tarball is.
func (r Release) url() (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(cmp.Or(r.Mirror, r.upstream, Upstream), "/"))
	if err != nil {
		return nil, errors.New("cannot use release-mirror: it is not a URL")
	}
	return u.JoinPath("v"+r.Version, r.name()), nil
}

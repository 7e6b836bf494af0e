// Package release is how a Concourse release gets on a machine: found, downloaded
// or taken from the attached resource, verified, unpacked, switched to by one link,
// gone back from when it fails here, and cleaned up, with storage that units share
// or without. Release is a plan.Resource; nothing here knows what is run of it.
package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
)

// Upstream is where Concourse publishes its releases.
const Upstream = "https://github.com/concourse/concourse/releases/download"

// Release is a Concourse release below Dir with Link pointing
// at it. It comes from the attached resource where there is one, else from
// Mirror. Use one value for a run: it remembers the resource's hash.
type Release struct {
	Version  string // x.y.z; with a resource "" takes whatever version it is
	Resource string // tarball as this process opens it; "" or an empty file: none
	Mirror   string // base URL in place of Upstream, "" for Upstream
	SHA256   string // of the tarball, lower-case hex; "" where the operator gave none
	Arch     string // amd64 or arm64
	Token    string // option github-token, for GitHub's API alone; "" without
	Proxy    resource.Proxies
	Shared   bool                                           // HomeDir is shared storage, see SharedStorage
	Before   plan.Resource                                  // comes just before another release takes the place of the one in use; nil: nothing
	Unit     string                                         // this unit, "worker/0"; needed where Shared
	api      string                                         // "": upstreamAPI
	upstream string                                         // "": Upstream
	client   *http.Client                                   // nil: one that knows Proxy
	after    func(time.Duration, func()) (stop func() bool) // nil: time.AfterFunc
	table    []checksum                                     // nil: checksums()
	known    *target
	avoid    *Failed
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
func (r *Release) ID(root host.Root) (string, error) {
	t, err := r.target(root)
	return t.id, err
}

// Diff implements plan.Resource. Each step can be killed anywhere: downloads
// resume, a release has its name only when it is complete, and the link is
// switched by a rename. With shared storage any unit can be killed anywhere
// beside any other.
func (r *Release) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	t, err := r.target(h.Root)
	if err != nil {
		return nil, err
	}
	if r.Shared && !h.Exists(SharedMarker) { // else it would land on the container's own disk
		return plan.Plan{{Op: "use the shared storage", Why: "releases are in it", Do: func(context.Context) error {
			return cmp.Or(SharedStorage(h.Root), error(errNotMounted))
		}}}, nil
	}
	p := r.forget(h.Root, t)
	if t.resource && r.SHA256 != "" && r.SHA256 != t.from.SHA256 {
		return plan.Plan{{Op: "use the attached release", Why: "its SHA-256 is not release-sha256", Do: func(context.Context) error {
			return &checksumError{Path: r.Resource, Want: r.SHA256, Got: t.from.SHA256, Source: "release-sha256"}
		}}}, nil
	}
	if r.Shared {
		c, err := r.claim(h, r.kept(h.Root, t))
		if err != nil {
			return nil, err
		}
		p = append(p, c...)
	}
	if !t.installed {
		p = append(p, r.install(h, t)...)
	}
	s, err := r.switchTo(ctx, h, t)
	return append(p, s...), err
}

// install is the steps up to a complete folder below Dir.
func (r *Release) install(h host.Host, t target) plan.Plan {
	why := "no release is installed"
	if v, _, ok := Installed(h.Root); ok {
		why = "installed is " + v
	}
	if r.Shared {
		what := "Concourse " + r.Version
		if t.resource {
			what = "the attached Concourse release"
		}
		return plan.Plan{{Op: "install " + what + " into the shared storage", Why: why, Do: func(ctx context.Context) error {
			return r.installShared(ctx, h, t)
		}}}
	}
	if t.resource {
		return plan.Plan{{Op: "unpack the attached Concourse release", Why: why, Do: func(ctx context.Context) error {
			return r.unpack(ctx, h, t.id, r.Resource, t.from)
		}}}
	}
	var p plan.Plan
	tarball := downloadDir + "/" + r.name()
	if !h.Exists(tarball) {
		p = append(p, plan.Step{Op: "download Concourse " + r.Version, Why: why, Do: func(ctx context.Context) error {
			return r.download(ctx, h, tarball)
		}})
	}
	var sum string
	return append(p,
		plan.Step{Op: "verify the download of Concourse " + r.Version, Why: "nothing is unpacked unverified", Do: func(ctx context.Context) (err error) {
			sum, err = r.verify(ctx, h, tarball)
			return err
		}},
		plan.Step{Op: "unpack Concourse " + r.Version, Why: why, Do: func(ctx context.Context) error {
			return r.unpack(ctx, h, t.id, h.Path(tarball), origin{Version: r.Version, SHA256: sum})
		}})
}

// installShared is install as one step, for one unit at a time. What another
// unit has finished since the plan was made is not done again.
func (r *Release) installShared(ctx context.Context, h host.Host, t target) error {
	unlock, err := tryLock(h.Root)
	if err != nil {
		return err
	}
	defer unlock()
	if _, done := complete(h.Root, t.id); done {
		return nil
	}
	if err := r.sweep(h.Root); err != nil {
		return err
	}
	if t.resource {
		return r.unpack(ctx, h, t.id, r.Resource, t.from)
	}
	tarball := downloadDir + "/" + r.name()
	if !h.Exists(tarball) {
		if err := r.download(ctx, h, tarball); err != nil {
			return err
		}
	}
	sum, err := r.verify(ctx, h, tarball)
	if err == nil {
		err = r.unpack(ctx, h, t.id, h.Path(tarball), origin{Version: r.Version, SHA256: sum})
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(h.Path(downloadDir))
}

// target finds out which release is to be used and whether it is there.
func (r *Release) target(root host.Root) (target, error) {
	t, err := r.wanted(root)
	if err != nil {
		return t, err
	}
	return r.instead(root, t), nil
}

// wanted is the release as the options say.
func (r *Release) wanted(root host.Root) (target, error) {
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
func (r *Release) attached(all []origin) (*origin, error) {
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
	} else if r.known != nil && same(r.known.from) {
		o.SHA256 = r.known.from.SHA256
	} else if o.SHA256, err = hashFile(r.Resource); err != nil {
		return nil, fmt.Errorf("cannot use the attached release: %w", err)
	}
	r.known = &target{from: o}
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
func (r *Release) check() error {
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
func (r *Release) name() string { return fmt.Sprintf("concourse-%s-linux-%s.tgz", r.Version, r.Arch) }

// url is where the tarball is.
func (r *Release) url() (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(cmp.Or(r.Mirror, r.upstream, Upstream), "/"))
	if err != nil {
		return nil, errors.New("cannot use release-mirror: it is not a URL")
	}
	return u.JoinPath("v"+r.Version, r.name()), nil
}

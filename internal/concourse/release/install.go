package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// Install installs the release below Dir and points Link to it.
type Install struct {
	Release
	Before plan.Resource // applied before another release replaces the current one; nil: nothing

	client *http.Client                                   // nil: a client with Proxy
	after  func(time.Duration, func()) (stop func() bool) // nil: time.AfterFunc
}

// Diff implements plan.Resource. Each step can be killed at any point. Downloads resume, a
// release gets its name only when it is complete, and a rename switches the link. With
// shared storage this holds for several units at once.
func (r Install) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	t, err := r.target(h.Root)
	if err != nil {
		return nil, err
	}
	if err := r.refused(h.Root, t); err != nil {
		return plan.Plan{{Op: "use the release", Why: err.Error(), Do: func(context.Context) error { return err }}}, nil
	}
	p := r.allowRetry(h.Root, t)
	if r.Shared {
		c, err := r.claim(h, r.required(h.Root, t))
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

// refused returns why the wanted release cannot be used, as far as it is known before it is
// installed.
func (r Install) refused(root host.Root, t target) error {
	switch {
	case r.Shared && !root.Exists(SharedMarker): // otherwise the release would be on the container's own disk
		return notMounted(root)
	case t.resource && r.SHA256 != "" && r.SHA256 != t.from.SHA256:
		return &checksumError{Path: r.Resource, Want: r.SHA256, Got: t.from.SHA256, Source: "release-sha256"}
	case t.installed && r.wrongVersion(t):
		return &VersionError{Path: r.Resource, Want: r.Version, Got: t.from.Version}
	}
	return nil
}

// install returns the steps up to a complete folder below Dir. They share a client and its
// connections.
func (r Install) install(h host.Host, t target) plan.Plan {
	r.client = cmp.Or(r.client, newClient(r.Proxy))
	why := "no release is installed"
	if v, _, ok := Installed(h.Root); ok {
		why = "installed is " + v
	}
	if r.Shared {
		what := "Concourse " + r.Version
		if t.resource {
			what = "the attached Concourse release"
		}
		return plan.Plan{{Op: "install " + what + " into the shared storage", Why: why,
			Do: func(ctx context.Context) error {
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
		plan.Step{Op: "verify the download of Concourse " + r.Version, Why: "nothing is unpacked unverified",
			Do: func(ctx context.Context) (err error) {
				sum, err = r.verify(ctx, h, tarball)
				return err
			}},
		plan.Step{Op: "unpack Concourse " + r.Version, Why: why, Do: func(ctx context.Context) error {
			return r.unpack(ctx, h, t.id, h.Path(tarball), origin{Version: r.Version, SHA256: sum})
		}})
}

// installShared installs in one step, for one unit at a time. It skips the parts that
// another unit has finished since the plan was made.
func (r Install) installShared(ctx context.Context, h host.Host, t target) error {
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
	tarball, sum, err := r.Obtain(ctx, h)
	if err == nil {
		err = r.unpack(ctx, h, t.id, h.Path(tarball), origin{Version: r.Version, SHA256: sum})
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(h.Path(downloadDir))
}

// Prepare returns an error if Diff's steps cannot install the release. It downloads a missing
// release, and changes nothing else. report receives the progress.
func (r Install) Prepare(ctx context.Context, h host.Host, report func(text string)) error {
	t, err := r.target(h.Root)
	if err == nil {
		err = r.refused(h.Root, t)
	}
	if err != nil || t.installed || t.resource {
		return err
	}
	download := plan.Plan{{Op: "download Concourse " + r.Version, Why: "it is not installed",
		Do: func(ctx context.Context) error {
			if r.Shared {
				unlock, err := tryLock(h.Root)
				if err != nil {
					return err
				}
				defer unlock()
			}
			_, _, err := r.Obtain(ctx, h)
			return err
		}}}
	_, err = download.Apply(ctx, report)
	return err
}

// Obtain downloads the tarball of the release unless it is complete, verifies it, and
// returns its path below the root and its SHA-256. It unpacks nothing.
func (r Install) Obtain(ctx context.Context, h host.Host) (tarball, sum string, err error) {
	r.client = cmp.Or(r.client, newClient(r.Proxy))
	tarball = downloadDir + "/" + r.name()
	if !h.Exists(tarball) {
		if err := r.download(ctx, h, tarball); err != nil {
			return "", "", err
		}
	}
	sum, err = r.verify(ctx, h, tarball)
	return tarball, sum, err
}

var versionInText = lazyregexp.New(`\b[0-9]+\.[0-9]+\.[0-9]+\b`)

// unpack creates the folder id from the tarball from, a path for this process. Until the
// last rename the folder is called .unpack-<id>. Remains of a killed run in it are removed.
func (r Release) unpack(ctx context.Context, h host.Host, id, from string, o origin) error {
	dir := path.Join(Dir, ".unpack-"+id)
	if err := os.RemoveAll(h.Path(dir)); err != nil {
		return err
	}
	if err := h.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	shown := path.Base(from)
	plan.Report(ctx, "Extracting Concourse "+cmp.Or(r.Version, shown)+"...")
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	err = untar(ctx, h.Path(dir), f, releaseLimits)
	var bad problem
	if err == nil {
		o.Version, err = releaseVersion(ctx, h, dir)
	}
	if err == nil && r.Version != "" && o.File == "" && o.Version != r.Version {
		err = errors.Join(&VersionError{Path: shown, Want: r.Version, Got: o.Version},
			r.refuse(h.Root, o.SHA256, o.Version))
	}
	if err != nil {
		if errors.As(err, &bad) {
			err = &badReleaseError{Path: shown, Problem: string(bad)}
		}
		return errors.Join(err, os.RemoveAll(h.Path(dir)))
	}
	if err := h.WriteFile(dir+"/VERSION", []byte(o.Version+"\n"), 0o644); err != nil {
		return err
	}
	if err := originFile(dir).Write(h.Root, o); err != nil {
		return err
	}
	if err := syncTree(h.Path(dir)); err != nil {
		return err
	}
	if err := os.Rename(h.Path(dir), h.Path(path.Join(Dir, id))); err != nil {
		return err
	}
	return resource.SyncDir(h.Path(Dir))
}

// releaseVersion checks the worker's programs and asks the main one for its version. This
// is the first time that a program of the release runs. Its checksum has been verified, or
// the operator attached it.
func releaseVersion(ctx context.Context, h host.Host, dir string) (string, error) {
	for _, p := range []string{"bin/concourse", "bin/containerd", "bin/runc"} { // which a worker needs
		st, err := h.Stat(path.Join(dir, p))
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			return "", problem(p + " is missing or not executable")
		}
	}
	out, err := h.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: []string{h.Path(path.Join(dir, "bin/concourse")), "--version"}})
	if cmd, ok := errors.AsType[*host.CommandError](err); ok {
		return "", problem(fmt.Sprintf("bin/concourse does not run on this machine: %s",
			cmp.Or(cmd.LastLine(), cmd.Err.Error())))
	}
	if err != nil {
		return "", err
	}
	version := string(versionInText().Find(out[:min(len(out), 4096)]))
	if CheckVersion(version) != nil {
		return "", problem("bin/concourse --version prints no version")
	}
	return version, nil
}

// syncTree makes the names of a tree durable. The contents of files were synced when they
// were written. Folders get their mode whatever the umask is, because other users run the
// programs in them.
func syncTree(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := syncTree(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return resource.SyncDir(dir)
}

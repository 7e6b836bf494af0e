package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// previousLink names the previous release, which is kept. Containers that it started still
// use its programs, and a rollback needs no download.
const previousLink = "/opt/concourse-ci-machine/previous-release"

// currentRelease returns the id of the release in use.
func currentRelease(root host.Root) (string, bool) { return linkedRelease(root, Link) }

// previousRelease returns the id of the previous release.
func previousRelease(root host.Root) (string, bool) { return linkedRelease(root, previousLink) }

// linkedRelease returns the id that a link names. Links are absolute, because /opt itself
// may be a link.
func linkedRelease(root host.Root, link string) (string, bool) {
	text, err := root.Readlink(link)
	if err != nil {
		return "", false
	}
	dir, id := filepath.Split(text)
	if dir != Dir+"/" && dir != releaseFolder(root, "") {
		return "", false
	}
	return id, plainName(id)
}

// releaseFolder returns the target of a link: the folder as this process sees it.
func releaseFolder(root host.Root, id string) string {
	dir := root.Path(Dir)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return dir + "/" + id
}

func plainName(id string) bool {
	return id != "" && !strings.ContainsAny(id, "/\x00") && !strings.HasPrefix(id, ".")
}

// TestedVersion is the Concourse version that this charm was tested with. It is installed
// if neither the operator nor a web names a version.
const TestedVersion = "8.2.5"

// Paths of the machine. A release's paths go through Link, so that an upgrade changes one
// link only. Units may share HomeDir, but never the link. So each unit upgrades separately,
// and no unit changes what another runs (D50).
const (
	HomeDir = "/var/lib/concourse"
	Dir     = HomeDir + "/releases"
	Link    = "/opt/concourse-ci-machine/release"
	BinDir  = Link + "/bin"
)

// switchTo returns the steps after unpacking: switch the link and remove unneeded releases.
func (r Install) switchTo(ctx context.Context, h host.Host, t target) (plan.Plan, error) {
	var p plan.Plan
	now, used := currentRelease(h.Root)
	if now != t.id {
		why := "no release is in use"
		switch {
		case t.back:
			why = r.avoid.Version + " failed here"
		case used:
			why = "in use is " + now
		}
		if used && r.Before != nil {
			s, err := r.Before.Diff(ctx, h)
			if err != nil {
				return nil, err
			}
			p = append(p, s...)
		}
		p = append(p, plan.Step{Op: "switch " + Link + " to " + t.id, Why: why, Do: func(context.Context) error {
			return r.link(h.Root, t)
		}})
	}
	if t.installed && t.resource {
		p = append(p, note(h.Root, t)...)
	}
	s, err := r.clean(h, t)
	return append(p, s...), err
}

// wrongVersion reports whether an attached release is not the wanted one.
func (r Release) wrongVersion(t target) bool {
	return r.Version != "" && !t.back && t.from.Version != r.Version
}

// link switches Link. It stores the previous target, unless that failed.
func (r Release) link(root host.Root, t target) error {
	version, err := root.ReadText(path.Join(Dir, t.id, "VERSION"))
	if r.Shared && errors.Is(err, fs.ErrNotExist) {
		// Another unit removed it just before this unit's record named it.
		return &waitError{fmt.Sprintf("Another unit removed Concourse %s, installing it again...", t.id)}
	}
	if err != nil {
		return err
	}
	if t.from.Version = version; r.wrongVersion(t) {
		return &VersionError{Path: "the attached release", Want: r.Version, Got: version}
	}
	if err := root.MkdirAll(path.Dir(Link), 0o755); err != nil {
		return err
	}
	if now, ok := currentRelease(root); ok && now != t.id && now != r.avoid.ID {
		if err := replaceLink(root, previousLink, releaseFolder(root, now)); err != nil {
			return err
		}
	}
	return replaceLink(root, Link, releaseFolder(root, t.id))
}

// replaceLink creates or changes a symbolic link in one step.
func replaceLink(root host.Root, link, to string) error {
	tmp := path.Join(path.Dir(link), "."+path.Base(link)+".new")
	if err := root.Remove(tmp); err != nil {
		return err
	}
	if err := os.Symlink(to, root.Path(tmp)); err != nil {
		return err
	}
	if err := os.Rename(root.Path(tmp), root.Path(link)); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return resource.SyncDir(root.Path(path.Dir(link)))
}

// note stores an attached file's size and date if only they changed, so that not every hook
// computes its hash.
func note(root host.Root, t target) plan.Plan {
	all, err := releases(root)
	if err != nil {
		return nil
	}
	have, ok := findRelease(all, func(o origin) bool { return o.ID == t.id })
	if !ok || have.File == t.from.File && have.Size == t.from.Size && have.Modified.Equal(t.from.Modified) {
		return nil
	}
	return plan.Plan{{Op: "note that the attached release is " + t.id,
		Why: "the file's date changed, its content did not", Do: func(context.Context) error {
			return originFile(path.Join(Dir, t.id)).Write(root, t.from)
		}}}
}

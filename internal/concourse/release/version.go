package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

// isVersion accepts x.y.z of numbers without leading zeros, with at most six digits. It is
// not a regexp, because compiling one costs every hook a part of a millisecond.
func isVersion(s string) bool {
	if len(s) > len("123456.123456.123456") {
		return false
	}
	parts := strings.Split(s, ".")
	for _, p := range parts {
		if p == "" || len(p) > 6 || len(p) > 1 && p[0] == '0' || strings.Trim(p, "0123456789") != "" {
			return false
		}
	}
	return len(parts) == 3
}

// CheckVersion returns an error with the correct form if s is not a version. Versions are
// part of file names and URLs, so only x.y.z is valid. The error has only the beginning of
// s, because s may come from outside.
func CheckVersion(s string) error {
	bare := strings.TrimPrefix(s, "v")
	switch {
	case isVersion(s):
		return nil
	case isVersion(bare):
		return fmt.Errorf("%.40q has a leading v; write %s", s, bare)
	case strings.EqualFold(s, "latest"):
		return fmt.Errorf("%.40q is not a version; name one, such as %s", s, TestedVersion)
	}
	return fmt.Errorf("%.40q is not a version; want x.y.z, such as %s", s, TestedVersion)
}

// compareVersions orders two versions that CheckVersion accepts: negative if a is older
// than b, 0 if they are equal, positive if a is newer.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// Succeeds reports whether a version is newer than another one of the same major version.
func Succeeds(version, than string) bool {
	return isVersion(version) && isVersion(than) && major(version) == major(than) && compareVersions(version, than) > 0
}

// Fits reports whether a web of one version gives work to a worker of another. The major
// versions of their protocol must be equal: 2 up to Concourse 8.2, 3 from 8.3 on
// (versions.go of Concourse; atc/worker/pool.go compares). A version other than x.y.z fits.
func Fits(web, worker string) bool {
	a, b := protocol(web), protocol(worker)
	return a == 0 || b == 0 || a == b
}

// protocol returns the major version, 0 if the version of Concourse is not x.y.z.
func protocol(version string) int {
	switch {
	case !isVersion(version):
		return 0
	case compareVersions(version, "8.3.0") < 0:
		return 2
	}
	return 3
}

// VersionOf returns the version of an unpacked release, or "" if it can't be read.
func VersionOf(r host.Root, id string) string {
	version, err := r.ReadText(path.Join(Dir, id, "VERSION"))
	if err != nil {
		return ""
	}
	return version
}

// ToolVersion returns the version that a program of the release prints, or "" if it fails.
func ToolVersion(ctx context.Context, h host.Host, name string) string {
	out, err := h.Run(ctx, host.Command{Argv: []string{h.Path(BinDir + "/" + name), "--version"}, ReadOnly: true,
		Deadline: 10 * time.Second})
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// originName is the record of a release's source. A folder without one is not the charm's
// and is never removed.
const originName = ".origin.json"

func originFile(dir string) statefile.File[origin] {
	return statefile.File[origin]{Path: path.Join(dir, originName), Mode: 0o644}
}

// origin holds the content of that record. File, Size and Modified describe an attached
// resource. While they are unchanged, its SHA-256 is not computed again.
type origin struct {
	ID       string    `json:"-"`
	Version  string    `json:"version"`
	SHA256   string    `json:"sha256"` // of the tarball
	File     string    `json:"file,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
}

// Installed returns the release that Link names: its version (x.y.z) and the name of its
// folder in Dir.
func Installed(r host.Root) (version, id string, ok bool) {
	id, ok = currentRelease(r)
	if !ok || !r.Exists(path.Join(Dir, id, "bin/concourse")) {
		return "", "", false
	}
	version, err := r.ReadText(path.Join(Dir, id, "VERSION"))
	if err != nil || CheckVersion(version) != nil {
		return "", "", false
	}
	return version, id, true
}

// releases returns the records of all complete releases, by id. A folder gets its name only
// when it is complete, so the record alone proves it.
func releases(r host.Root) ([]origin, error) {
	entries, err := r.ReadDir(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", Dir, err)
	}
	var found []origin
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := originFile(path.Join(Dir, e.Name()))
		if !r.Exists(file.Path) {
			continue
		}
		o, err := file.Read(r)
		o.ID = e.Name()
		if err != nil {
			return nil, fmt.Errorf("cannot read the record of release %s: %w", e.Name(), err)
		}
		found = append(found, o)
	}
	return found, nil
}

func findRelease(all []origin, is func(origin) bool) (origin, bool) {
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return origin{}, false
	}
	return all[i], true
}

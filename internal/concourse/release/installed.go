package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// originName is a release's own record of what it was unpacked from. A folder
// without one is not ours, and is never removed.
const originName = ".origin.json"

// origin is that record. File, Size and Modified are those of an attached
// resource: as long as they hold, its SHA-256 need not be computed again.
type origin struct {
	ID       string    `json:"-"`
	Version  string    `json:"version"`
	SHA256   string    `json:"sha256"` // of the tarball
	File     string    `json:"file,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
}

// Installed is the release that Link names, with its version
// (x.y.z) and the name of its folder in Dir.
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

// releases returns the records of all complete releases, by id. A folder has
// its name only when it is complete, so the record alone proves it.
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
		data, err := r.ReadFile(path.Join(Dir, e.Name(), originName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		o := origin{ID: e.Name()}
		if err == nil {
			err = json.Unmarshal(data, &o)
		}
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

package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

const (
	// unitsDir has a file for each unit of the shared storage with the releases that the
	// unit needs, so that no other unit removes them.
	unitsDir = HomeDir + "/units"
	// A record is renewed every day. A record that is a month old belongs to a removed
	// unit.
	recordRenewed = 24 * time.Hour
	recordStale   = 30 * 24 * time.Hour
)

// unitRecord holds the content of such a file.
type unitRecord struct {
	Unit     string    `json:"unit"`
	Releases []string  `json:"releases"` // ids, sorted
	Seen     time.Time `json:"seen"`
}

// UnitRecord returns the file of the unit, "worker/0". It is removed with the unit.
func UnitRecord(unit string) string { return unitsDir + "/" + strings.ReplaceAll(unit, "/", "-") }

// claim returns the step that records the releases this unit needs, for the other units. It
// comes before all other steps. A recorded release is not removed, so a release that is
// found afterwards stays.
func (r Release) claim(h host.Host, required map[string]bool) (plan.Plan, error) {
	want := unitRecord{Unit: r.Unit, Releases: names(required), Seen: h.Now().UTC()}
	file := UnitRecord(r.Unit)
	why := "missing"
	have, err := recordFile(file).Read(h.Root)
	switch {
	case err != nil && !errors.Is(err, statefile.ErrDamaged):
		return nil, err
	case !h.Exists(file):
	case err != nil || !slices.Equal(have.Releases, want.Releases):
		why = "names others"
	case want.Seen.Sub(have.Seen).Abs() < recordRenewed:
		return nil, nil
	default:
		why = "older than a day"
	}
	return plan.Plan{{Op: fmt.Sprintf("note in %s that this unit needs %s", file,
		strings.Join(want.Releases, ", ")), Why: why, Do: func(context.Context) error {
		return recordFile(file).Write(h.Root, want)
	}}}, nil
}

// needed returns a function that reports whether another unit needs a release. With an
// unreadable record all releases are needed.
func (r Release) needed(h host.Host) (func(id string) bool, error) {
	entries, err := h.ReadDir(unitsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list %s: %w", unitsDir, err)
	}
	named := map[string]bool{}
	for _, e := range entries {
		file := path.Join(unitsDir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || file == UnitRecord(r.Unit) {
			continue
		}
		u, err := recordFile(file).Read(h.Root)
		if err != nil {
			if st, serr := h.Lstat(file); serr == nil && h.Now().Sub(st.ModTime()) > recordStale {
				continue
			}
			return func(string) bool { return true }, nil
		}
		if h.Now().Sub(u.Seen) > recordStale {
			continue
		}
		for _, id := range u.Releases {
			named[id] = true
		}
	}
	return func(id string) bool { return named[id] }, nil
}

// recordFile declares the record of a unit, which may be another one.
func recordFile(path string) statefile.File[unitRecord] {
	return statefile.File[unitRecord]{Path: path, Mode: 0o644, Valid: unitRecord.valid}
}

func (u unitRecord) valid() error {
	for _, id := range u.Releases {
		if !plainName(id) {
			return fmt.Errorf("%q is not a release", id)
		}
	}
	return nil
}

func names(set map[string]bool) []string {
	var all []string
	for n := range set {
		if n != "" {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

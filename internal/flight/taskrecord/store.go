package taskrecord

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// DefaultDir has the records. Its mode is 0700, because a record shows who works on what.
const DefaultDir = wellknown.StateDir + "/tasks"

// The endings of file names. A record is renamed when it ends, so that the store is pruned
// without reading it.
const (
	running   = ".open"
	succeeded = ".ok"
	failed    = ".failed"
	dump      = ".dump.gz"
)

// Limits of a store.
type Limits struct {
	Bytes int64         // of all files
	Age   time.Duration // of tasks that succeeded
	// FailedAge is longer, because people look for the reason of a failure.
	FailedAge time.Duration
}

// MaxRecord bounds one record; MaxDump one dump, before and after its compression.
const (
	MaxRecord = 8 << 20
	MaxDump   = 64 << 20
	maxZipped = 8 << 20
)

// Store keeps the records in a directory.
type Store struct{ Dir string }

// open makes the directory. It must be root's alone.
func (s Store) open() error {
	if err := host.Root("").MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the store of task records: %w", err)
	}
	return nil
}

func (s Store) path(handle, ending string) string { return filepath.Join(s.Dir, handle+ending) }

func (s Store) rename(handle string, e *End) error {
	ending := succeeded
	if e.failed() {
		ending = failed
	}
	return os.Rename(s.path(handle, running), s.path(handle, ending))
}

// Open reports whether the store has the record of a task that runs.
func (s Store) Open(handle string) bool {
	_, err := os.Lstat(s.path(handle, running))
	return err == nil
}

// Ended reports whether the store has the record of a task that ended.
func (s Store) Ended(handle string) bool {
	for _, ending := range []string{succeeded, failed} {
		if _, err := os.Lstat(s.path(handle, ending)); err == nil {
			return true
		}
	}
	return false
}

// File is a record in the store.
type File struct {
	Handle   string
	Running  bool
	Failed   bool
	Modified time.Time
	Size     int64 // with its dumps
	path     string
}

// List returns the records, the newest first. A missing store is empty.
func (s Store) List() ([]File, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list task records: %w", err)
	}
	var all []File
	dumps := map[string]int64{}
	for _, e := range entries {
		handle, ending := split(e.Name())
		if !IsName(handle) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		switch ending {
		case running, succeeded, failed:
			all = append(all, File{Handle: handle, Running: ending == running, Failed: ending == failed,
				Modified: info.ModTime(), Size: info.Size(), path: s.path(handle, ending)})
		default:
			dumps[handle] += info.Size()
		}
	}
	for i := range all {
		all[i].Size += dumps[all[i].Handle]
	}
	slices.SortFunc(all, func(a, b File) int {
		return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.Handle, b.Handle))
	})
	return all, nil
}

// IsName reports whether a record can have this handle: one of Concourse, the id of a
// container with 64 hex digits, or the id of a run.
func IsName(handle string) bool {
	id := len(handle) == 64 && strings.Trim(handle, "0123456789abcdef") == ""
	return id || wellknown.IsHandle(handle) || rungroup.IsRun(handle)
}

// split returns the handle in a file's name, and the rest.
func split(name string) (handle, ending string) {
	handle, _, _ = strings.Cut(name, ".")
	return handle, name[len(handle):]
}

// Read reads a record of the list. A record that ended without room for its end has the
// result that its file's name shows.
func (f File) Read() (Record, error) {
	data, err := readFile(f.path)
	if err != nil {
		return Record{}, err
	}
	r, err := Decode(data)
	if err != nil {
		return r, fmt.Errorf("cannot read %s: %w", f.path, err)
	}
	if !f.Running && r.End == nil {
		r.End = &End{Ended: r.Last(), Ending: Unseen, Evidence: r.Evidence}
		if !f.Failed {
			r.End.Exit = new(int)
		}
	}
	return r, nil
}

// readFile reads a regular file of at most twice MaxRecord.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read %s: %w", path, cmp.Or(err, errDamaged))
	}
	data, err := io.ReadAll(io.LimitReader(f, 2*MaxRecord))
	if err != nil {
		return nil, fmt.Errorf("cannot read a task record: %w", err)
	}
	return data, nil
}

// Settle ends the records of a previous recorder whose task does not run any more. alive
// reports whether a container is still there. A damaged file is removed.
func (s Store) Settle(boot string, alive func(handle string) bool) error {
	all, err := s.List()
	for _, f := range all {
		if !f.Running || alive(f.Handle) {
			continue
		}
		w, r, failed := s.Resume(f.Handle)
		switch {
		case errors.Is(failed, errDamaged):
			err = errors.Join(err, os.Remove(f.path))
		case failed != nil:
			err = errors.Join(err, failed)
		case r.End != nil: // the recorder was killed before it renamed the file
			err = errors.Join(err, w.Close(), s.rename(f.Handle, r.End))
		default:
			e := End{Ended: r.Last(), Ending: Unseen, Evidence: r.Evidence}
			switch {
			case r.Head.Boot != boot:
				e.Ending = Reboot
			case !r.Head.OfConcourse():
				e.Ending = NoStatus
			}
			err = errors.Join(err, w.End(e))
		}
	}
	return err
}

// Prune removes whole tasks until the store is within its limits: the oldest that
// succeeded first, then the oldest that failed. It removes dumps without a record.
func (s Store) Prune(now time.Time, l Limits) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	err = s.removeOrphans(all)
	total := int64(0)
	for _, f := range all {
		total += f.Size
	}
	slices.Reverse(all)
	for _, failedOnes := range []bool{false, true} {
		limit := l.Age
		if failedOnes {
			limit = l.FailedAge
		}
		for _, f := range all {
			if f.Running || f.Failed != failedOnes || total <= l.Bytes && now.Sub(f.Modified) <= limit {
				continue
			}
			err = errors.Join(err, s.remove(f))
			total -= f.Size
		}
	}
	return err
}

// Remove removes the record of a handle, with its dumps.
func (s Store) Remove(handle string) error {
	f, err := s.Find(handle)
	if err != nil {
		return err
	}
	return s.remove(f)
}

// remove removes the record first, so that a kill leaves only dumps, which are orphans.
func (s Store) remove(f File) error {
	if err := os.Remove(f.path); err != nil {
		return err
	}
	files, err := filepath.Glob(s.path(f.Handle, ".*"+dump))
	for _, d := range files {
		err = errors.Join(err, os.Remove(d))
	}
	return err
}

func (s Store) removeOrphans(all []File) error {
	files, err := filepath.Glob(s.path("*", dump))
	for _, d := range files {
		handle, _ := split(filepath.Base(d))
		if !slices.ContainsFunc(all, func(f File) bool { return f.Handle == handle }) {
			err = errors.Join(err, os.Remove(d))
		}
	}
	return err
}

// ErrNoneFailed reports that no record is of a failed task.
var ErrNoneFailed = errors.New("nothing failed on this machine in the time that is kept; " +
	"to see a task or run that succeeded, name it, with sudo")

// Find returns the record of a handle or of the beginning of one. With "" it returns the
// last failed one, or ErrNoneFailed.
func (s Store) Find(which string) (File, error) {
	all, err := s.List()
	if err != nil {
		return File{}, err
	}
	var found []File
	for _, f := range all {
		switch {
		case which == "" && f.Failed:
			return f, nil
		case which != "" && strings.HasPrefix(f.Handle, strings.ToLower(which)):
			found = append(found, f)
		}
	}
	switch {
	case which == "":
		return File{}, ErrNoneFailed
	case len(found) == 0:
		return File{}, fmt.Errorf("cannot find a record of %q: want the beginning of a task's handle, as fly "+
			"containers shows it, of a run's name or of a container's id", which)
	case len(found) > 1 && found[0].Handle != found[1].Handle:
		return File{}, fmt.Errorf("cannot choose between %s and %s: give more of the handle", found[0].Handle,
			found[1].Handle)
	}
	return found[0], nil
}

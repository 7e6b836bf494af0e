package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Shared storage is one folder of an LXD host that several units see as HomeDir. They share
// only releases in it; each unit has a separate Link. No function here waits. If another
// unit holds the lock, the result is a *waitError, and the next hook checks again.
const (
	// SharedMarker is created in the folder by its mounter. Without it HomeDir is the
	// container's own disk, and no release is downloaded to it.
	SharedMarker = HomeDir + "/.lxc_shared_storage"
	// installLock is held by the one unit that installs or removes a release. The Python
	// charm locks the same file, so the two exclude each other too. The kernel releases the
	// lock when the process dies.
	installLock = HomeDir + "/.install.lock"

	probePattern = ".write-probe-*"
	// probeAge is the age from which a probe is a remain of a killed run.
	probeAge = time.Hour
)

// waitError reports work that another unit or the operator will finish. Text is the whole
// status. It takes no attempts.
type waitError struct{ Text string }

func (e *waitError) Error() string { return e.Text }

// Temporary returns true.
func (e *waitError) Temporary() bool { return true }

// Waiting returns the unit's status until then.
func (e *waitError) Waiting() string { return e.Text }

var (
	errNotMounted = &waitError{"Waiting for shared storage mount"}
	errBusy       = &waitError{"Another unit downloading, waiting..."}
)

// storageError reports unusable shared storage.
type storageError struct {
	Cause status.Cause
	Err   error // may be nil
}

func (e *storageError) Error() string { return e.Cause.Text }
func (e *storageError) Unwrap() error { return e.Err }

// Remedy returns the cause with a way to fix it.
func (e *storageError) Remedy(wellknown.Commands) status.Cause { return e.Cause }

// SharedStorage returns nil if the shared folder is mounted and this unit can write to it.
// A *waitError reports that it is not mounted yet. A *storageError reports that it is no
// longer mounted or not writable.
func SharedStorage(root host.Root) error {
	if _, err := root.Stat(SharedMarker); errors.Is(err, fs.ErrNotExist) {
		return notMounted(root)
	} else if err != nil {
		return notWritable(root, err)
	}
	if err := probe(root); err != nil {
		return notWritable(root, err)
	}
	return nil
}

// container returns the LXD host's name of this machine.
func container(root host.Root) string {
	name, err := root.ReadText("/etc/hostname")
	if err != nil || name == "" {
		return "<container>"
	}
	return name
}

// notMounted distinguishes a folder that is not mounted yet from a removed one: in the
// second case the release in use is missing.
func notMounted(root host.Root) error {
	id, linked := linkedRelease(root, Link)
	if !linked || root.Exists(path.Join(Dir, id)) {
		return errNotMounted
	}
	return &storageError{Cause: status.Block("Shared storage unavailable - mount may have been removed").
		Fix(fmt.Sprintf("on the LXD host run: lxc config device add %s shared-storage disk source=<folder> "+
			"path=%s shift=true", container(root), HomeDir))}
}

func notWritable(root host.Root, err error) error {
	var at *fs.PathError
	why := err
	if errors.As(err, &at) {
		why = at.Err // the path is a temporary name
	}
	return &storageError{Err: err, Cause: status.Block("Shared storage not writable: %v", why).
		Explain("check the mount's permissions").
		Fix("on the LXD host run: lxc config device set " + container(root) + " shared-storage shift=true")}
}

// probe writes a file with a unique name (D12), and removes probes of killed runs.
func probe(root host.Root) error {
	f, err := os.CreateTemp(root.Path(HomeDir), probePattern)
	if err != nil {
		return err
	}
	_, err = f.WriteString("shared storage is writable\n")
	// The times of all probes come from the storage's clock.
	st, serr := f.Stat()
	if err = cmp.Or(err, serr, f.Close(), os.Remove(f.Name())); err != nil {
		return err
	}
	old, err := root.Glob(HomeDir + "/" + probePattern)
	if err != nil {
		return err
	}
	for _, p := range old {
		other, err := root.Lstat(p)
		if err == nil && st.ModTime().Sub(other.ModTime()) > probeAge {
			err = root.Remove(p)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// tryLock takes the lock of the shared folder, or returns errBusy at once if another unit
// holds it.
func tryLock(root host.Root) (unlock func(), err error) {
	// Opening for reading works if another unit's user owns the file.
	f, err := os.OpenFile(root.Path(installLock), os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", installLock, err)
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return func() { f.Close() }, nil
	}
	f.Close()
	if err == unix.EWOULDBLOCK {
		return nil, errBusy
	}
	return nil, fmt.Errorf("cannot lock %s: %w", installLock, err)
}

// markers returns download markers of the Python charm. For the holder of the lock they are
// stale, however new they look (D8).
func markers(root host.Root) []string {
	var found []string
	for _, p := range []string{HomeDir + "/bin/.download_in_progress", HomeDir + "/.download_in_progress"} {
		if _, err := root.Lstat(p); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// Folders returns the directories that releases need. On shared storage only missing ones
// are created, and existing ones keep their owner and mode, because those are not one
// unit's decision (D11).
func Folders(shared bool) []plan.Resource {
	if !shared {
		return []plan.Resource{resource.Dir{Path: HomeDir, Mode: 0o755}, resource.Dir{Path: Dir, Mode: 0o755}}
	}
	return []plan.Resource{sharedDir(Dir), sharedDir(unitsDir)}
}

// sharedDir names a directory on shared storage. It is created if missing and never changed.
type sharedDir string

// Diff implements plan.Resource.
func (d sharedDir) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if h.Exists(string(d)) || !h.Exists(SharedMarker) {
		return nil, nil
	}
	return plan.Plan{{Op: "make directory " + string(d), Why: "missing", Do: func(context.Context) error {
		err := os.Mkdir(h.Path(string(d)), 0o755)
		if errors.Is(err, fs.ErrExist) {
			return nil // another unit was faster
		}
		if err == nil {
			err = os.Chmod(h.Path(string(d)), 0o755) // whatever the umask
		}
		return err
	}}}, nil
}

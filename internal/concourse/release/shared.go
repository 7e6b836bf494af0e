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

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// Shared storage is one folder of an LXD host that several units see as
// HomeDir. In it they share releases and nothing else: which of them runs is
// each unit's own Link. Nothing here waits: what another unit holds is
// a *waitError, and the next hook looks again.
const (
	// SharedMarker is put into the folder by whoever mounts it. Without it
	// HomeDir is the container's own disk, and nothing is downloaded to it.
	SharedMarker = HomeDir + "/.lxc_shared_storage"
	// installLock is held by the one unit that installs or removes a release.
	// The Python charm locks the same file, so the two keep apart as well. The
	// kernel gives the lock back when the process dies.
	installLock = HomeDir + "/.install.lock"

	probePattern = ".write-probe-*"
	// probeAge is when a probe was left by a run that was killed.
	probeAge = time.Hour
)

// waitError is something that another unit or the operator is about to do.
// Text is the whole status; it takes no attempts.
type waitError struct{ Text string }

func (e *waitError) Error() string { return e.Text }

// Temporary says that another try can help.
func (e *waitError) Temporary() bool { return true }

// Waiting is the text of the unit's status until then.
func (e *waitError) Waiting() string { return e.Text }

var (
	errNotMounted = &waitError{"Waiting for shared storage mount"}
	errBusy       = &waitError{"Another unit downloading, waiting..."}
)

// storageError is shared storage that can't be used as it is.
type storageError struct {
	Problem string // the beginning of the status
	Way     string // what the operator does
	Err     error  // nil: none
}

func (e *storageError) Error() string { return e.Problem }
func (e *storageError) Unwrap() error { return e.Err }

// Remedy says what the operator can do.
func (e *storageError) Remedy() string { return e.Problem + " " + e.Way }

// SharedStorage is nil when the shared folder is mounted and this unit can
// write to it. A *waitError says that it is not there yet, a *storageError
// that it is there no more or can't be written.
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

// container is what the LXD host calls this machine.
func container(root host.Root) string {
	name, err := root.ReadText("/etc/hostname")
	if err != nil || name == "" {
		return "<container>"
	}
	return name
}

// notMounted tells a folder that was not mounted yet from one that is gone:
// the release in use went with it.
func notMounted(root host.Root) error {
	id, linked := linkedRelease(root, Link)
	if !linked || root.Exists(path.Join(Dir, id)) {
		return errNotMounted
	}
	return &storageError{Problem: "Shared storage unavailable - mount may have been removed.",
		Way: fmt.Sprintf("On the LXD host run: lxc config device add %s shared-storage disk source=<folder> path=%s shift=true", container(root), HomeDir)}
}

func notWritable(root host.Root, err error) error {
	var at *fs.PathError
	why := err
	if errors.As(err, &at) {
		why = at.Err // the path is a name made up here
	}
	return &storageError{Problem: fmt.Sprintf("Shared storage not writable: %v. Check mount permissions.", why), Err: err,
		Way: fmt.Sprintf("On the LXD host run: lxc config device set %s shared-storage shift=true", container(root))}
}

// probe writes a file of a name that no other unit has (D12), and takes away
// those that killed runs left.
func probe(root host.Root) error {
	f, err := os.CreateTemp(root.Path(HomeDir), probePattern)
	if err != nil {
		return err
	}
	_, err = f.WriteString("shared storage is writable\n")
	// The storage's own clock, which is that of the other probes.
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

// tryLock takes the lock of the shared folder, or says at once that another
// unit has it.
func tryLock(root host.Root) (unlock func(), err error) {
	// Opened for reading, so that a file of another unit's owner will do.
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

// markers of a download that the Python charm left. Whoever holds the lock
// knows that they are stale, however new they look (D8).
func markers(root host.Root) []string {
	var found []string
	for _, p := range []string{HomeDir + "/bin/.download_in_progress", HomeDir + "/.download_in_progress"} {
		if _, err := root.Lstat(p); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// Folders are the directories that releases need. Those of shared
// storage are made where they are missing and then left as they are: their
// owner and mode are not one unit's to decide (D11).
func Folders(shared bool) []plan.Resource {
	if !shared {
		return []plan.Resource{resource.Dir{Path: HomeDir, Mode: 0o755}, resource.Dir{Path: Dir, Mode: 0o755}}
	}
	return []plan.Resource{sharedDir(Dir), sharedDir(unitsDir)}
}

// sharedDir is a directory that is there, however it is, once the storage is.
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

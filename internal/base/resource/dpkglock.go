package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
)

// lockDpkg takes apt's and dpkg's locks as they take them, waits for both as
// apt does, and returns the function that gives them back. On a machine without
// dpkg there is nothing to wait for.
func lockDpkg(ctx context.Context, r host.Root) (unlock func(), err error) {
	var held []*os.File
	release := func() {
		for _, f := range held {
			f.Close()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	end := time.NewTimer(lockTimeout)
	defer end.Stop()
	for _, name := range []string{"/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"} {
		f, err := os.OpenFile(r.Path(name), os.O_RDWR|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		held = append(held, f)
		for {
			// A lock of the file and not of the process: it conflicts with dpkg's
			// all the same, and closing the file elsewhere does not give it back.
			err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
				return nil, fmt.Errorf("cannot lock %s: %w", name, err)
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, fmt.Errorf("another apt or dpkg is at work: %w", ctx.Err())
			case <-end.C:
				return nil, errors.New("another apt or dpkg is at work")
			}
		}
	}
	return release, nil
}

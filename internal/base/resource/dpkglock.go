package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// lockDpkg takes apt's and dpkg's locks in their way, waits for both as apt does, and
// returns the function that releases them. Without dpkg it does not wait.
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
			// A lock of the file, not of the process. It conflicts with dpkg's lock too,
			// and closing the file elsewhere does not release it.
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

// runApt runs a command of apt-get. If it fails after a dpkg that was killed, runApt completes that
// and runs it again, because apt-get does nothing before.
func runApt(ctx context.Context, h host.Host, c host.Command) error {
	_, failed := h.Run(ctx, c)
	if failed == nil {
		return nil
	}
	left, err := h.Glob("/var/lib/dpkg/updates/[0-9]*")
	if err != nil || len(left) == 0 {
		return failed
	}
	_, err = h.Run(ctx, host.Command{Argv: []string{"dpkg", "--force-confdef", "--force-confold", "--configure", "-a"},
		Deadline: installLimit, Env: c.Env}) // it leaves broken packages to apt-get
	if _, failed = h.Run(ctx, c); failed != nil {
		return errors.Join(failed, err)
	}
	return nil
}

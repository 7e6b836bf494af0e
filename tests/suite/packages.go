package suite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// PackageCompression is the fastest for whole programs.
const PackageCompression = "zstd"

// Packages makes the packages of this machine's architecture, of version 1.2.3, into a
// folder. Then it calls then, if not nil, with the folder of what they are made of, which
// other suites change afterwards.
func Packages(into string, then func(bin string) error) (err error) {
	bin := filepath.Join(hosttest.Source(), "bin", "packages")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(bin, "lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	c := exec.Command("make", "package-"+runtime.GOARCH, "PACKAGES="+into, "COMPRESSION="+PackageCompression, "VERSION=1.2.3")
	c.Dir = hosttest.Source()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make the packages: %w\n%s", err, out)
	}
	if then == nil {
		return nil
	}
	return then(bin)
}

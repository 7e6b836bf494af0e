package suite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Folder makes one for a suite, that other users can pass through, and what is in it. It is
// what Namespaced.Outside returns.
func Folder(prefix string, build func(dir string) error) (dir string, end func() error, err error) {
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	end = func() error { return os.RemoveAll(dir) }
	if err = os.Chmod(dir, 0o755); err == nil {
		err = build(dir)
	}
	if err != nil {
		return "", nil, errors.Join(err, end())
	}
	return dir, end, nil
}

// Beneath runs the tests in their own process below the first one of a namespace, which
// sets up the machine, and takes in the processes that containers leave behind.
func Beneath(m *testing.M, machine func() error) int {
	if os.Getpid() != 1 {
		return m.Run()
	}
	if err := machine(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot set up a machine for the tests:", err)
		return 1
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	code, err := RunAndReap(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the tests:", err)
	}
	return code
}

// OwnMachine replaces /proc, /dev, /run and /etc in this mount namespace, for the first
// process of a namespace of processes: /dev has the stand-ins, /run is empty, /etc a copy.
func OwnMachine(dir string) error {
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := OwnDev(dir); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", "/etc", "/run/etc").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return syscall.Mount("/run/etc", "/etc", "", syscall.MS_BIND, "")
}

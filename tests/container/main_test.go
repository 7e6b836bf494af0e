//go:build e2e

package container

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/tests/suite"
)

const (
	insideEnv  = "CONTAINER_TEST_INSIDE" // the directory with what was built
	laterEnv   = "CONTAINER_TEST_RUNC"   // a runc of laterRunc, empty where it could not be built
	dirOfTests = "container-test-"
	laterRunc  = "1.4.0"
)

// missing says why the tests can't run here; empty when they can.
func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed to make containers"
	}
	if lacks := suite.Lacks("runc busybox-static util-linux", "runc", "busybox", "nsenter", "go"); lacks != "" {
		return lacks
	}
	if _, err := minors(); err != nil {
		return err.Error()
	}
	return ""
}

func need(t *testing.T) { suite.Need(t, missing()) }

func TestMain(m *testing.M) {
	why := missing()
	switch {
	case why != "" && os.Getenv("E2E") == "1":
		fmt.Fprintln(os.Stderr, "cannot run the container tests:", why)
		os.Exit(1)
	case why != "":
		os.Exit(m.Run()) // each test skips and says why
	case os.Getenv(insideEnv) != "":
		if err := ownDev(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot set up /dev:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := again()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the container tests:", err)
		code = 1
	}
	os.Exit(code)
}

// again builds the wrapper and hostile, and runs this test program once more in a
// mount namespace of its own.
func again() (int, error) {
	dir, err := os.MkdirTemp("", dirOfTests)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // containers' users pass through
		return 0, err
	}
	if err := suite.Build(dir, "./src/runc-amd-wrapper", "./tests/container/hostile"); err != nil {
		return 0, err
	}
	later, err := buildRunc()
	if err != nil && os.Getenv("E2E") == "1" {
		return 0, err
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "without runc", laterRunc+":", err)
	}
	if later != "" { // where a nested machine's root can reach it
		data, err := os.ReadFile(later)
		if err != nil {
			return 0, err
		}
		later = filepath.Join(dir, "runc-"+laterRunc)
		if err := os.WriteFile(later, data, 0o755); err != nil {
			return 0, err
		}
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), insideEnv+"="+dir, laterEnv+"="+later)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return runAndReap(c)
}

// runAndReap runs a program, and meanwhile takes in what it leaves behind: the
// containers' first processes, which runc waits for when it deletes one. Not
// every machine's own first process does that at once.
func runAndReap(c *exec.Cmd) (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case pid == c.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == c.Process.Pid:
			return status.ExitStatus(), nil
		}
	}
}

// buildRunc builds a runc newer than Debian's from the module proxy, once: it
// stays in the user's cache. It needs a C compiler, and no libseccomp, since no
// container of these tests has a seccomp profile.
func buildRunc() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "concourse-ci-machine-tests", "runc-"+laterRunc)
	path := filepath.Join(dir, "runc")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	c := exec.Command("go", "install", "-trimpath", "-buildvcs=false", "github.com/opencontainers/runc@v"+laterRunc)
	c.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=1", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build runc %s (Debian: gcc libc6-dev): %w\n%s", laterRunc, err, out)
	}
	return path, nil
}

// standIns are device nodes in the places of a GPU's. Behind each is a device
// that anybody who may open its node can open, and that runc does not allow by
// default (a copy of /dev/null would prove nothing).
var standIns = []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"}

// moreStandIns make it four GPUs, where the kernel has as many devices.
var moreStandIns = []string{"/dev/dri/renderD130", "/dev/dri/renderD131"}

// minors returns the stand-ins' minor numbers under major 10; which devices
// there are depends on the kernel.
func minors() (map[string]int, error) {
	data, err := os.ReadFile("/proc/misc")
	if err != nil {
		return nil, err
	}
	there := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 {
			if there[f[1]], err = strconv.Atoi(f[0]); err != nil {
				return nil, err
			}
		}
	}
	found, all := map[string]int{}, slices.Concat(standIns, moreStandIns)
	for _, name := range []string{"autofs", "loop-control", "cpu_dma_latency", "userfaultfd", "vga_arbiter", "vsock", "btrfs-control", "kvm", "rfkill", "udmabuf"} {
		if minor, ok := there[name]; ok && len(found) < len(all) {
			found[all[len(found)]] = minor
		}
	}
	if len(found) < len(standIns) {
		return nil, errors.New("/proc/misc has too few devices to stand in for GPUs (autofs, loop-control, cpu_dma_latency, ...)")
	}
	return found, nil
}

// ownDev replaces /dev in this mount namespace.
func ownDev() error {
	dev := filepath.Join(os.Getenv(insideEnv), "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dev, "tmpfs", syscall.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for name, dev5 := range map[string][2]int{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}, "console": {5, 1},
	} {
		if err := node(filepath.Join(dev, name), 0o666, dev5[0], dev5[1]); err != nil {
			return err
		}
	}
	for _, d := range []string{"pts", "shm", "mqueue", "dri"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	numbers, err := minors()
	if err != nil {
		return err
	}
	for path, minor := range numbers {
		if err := node(filepath.Join(filepath.Dir(dev), path), 0o660, 10, minor); err != nil {
			return err
		}
	}
	if err := syscall.Mount("/dev/pts", filepath.Join(dev, "pts"), "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	return syscall.Mount(dev, "/dev", "", syscall.MS_MOVE, "")
}

func node(path string, mode uint32, major, minor int) error {
	if err := syscall.Mknod(path, syscall.S_IFCHR|mode, major<<8|minor&0xff|(minor&^0xff)<<12); err != nil {
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	return os.Chmod(path, os.FileMode(mode))
}

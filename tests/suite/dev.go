package suite

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
)

// StandIns are device nodes in the places of a GPU's. Behind each is a device
// that anybody who may open its node can open, and that runc does not allow by
// default (a copy of /dev/null would prove nothing).
var StandIns = []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"}

// moreStandIns make it four GPUs, if the kernel has as many devices.
var moreStandIns = []string{"/dev/dri/renderD130", "/dev/dri/renderD131"}

// Minors returns the stand-ins' minor numbers under major 10; which devices
// there are depends on the kernel.
func Minors() (map[string]int, error) {
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
	found, all := map[string]int{}, slices.Concat(StandIns, moreStandIns)
	for _, name := range []string{"autofs", "loop-control", "cpu_dma_latency", "userfaultfd", "vga_arbiter", "vsock", "btrfs-control", "kvm", "rfkill", "udmabuf"} {
		if minor, ok := there[name]; ok && len(found) < len(all) {
			found[all[len(found)]] = minor
		}
	}
	if len(found) < len(StandIns) {
		return nil, errors.New("/proc/misc has too few devices to stand in for GPUs (autofs, loop-control, cpu_dma_latency, ...)")
	}
	return found, nil
}

// OwnDev replaces /dev in this mount namespace by one below dir, with the stand-ins.
func OwnDev(dir string) error {
	dev := filepath.Join(dir, "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dev, "tmpfs", syscall.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for name, dev5 := range map[string][2]int{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0}, "console": {5, 1},
	} {
		if err := Node(filepath.Join(dev, name), 0o666, dev5[0], dev5[1]); err != nil {
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
	numbers, err := Minors()
	if err != nil {
		return err
	}
	for path, minor := range numbers {
		if err := Node(filepath.Join(filepath.Dir(dev), path), 0o660, 10, minor); err != nil {
			return err
		}
	}
	if err := syscall.Mount("/dev/pts", filepath.Join(dev, "pts"), "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	return syscall.Mount(dev, "/dev", "", syscall.MS_MOVE, "")
}

// Node makes a character device.
func Node(path string, mode uint32, major, minor int) error {
	if err := syscall.Mknod(path, syscall.S_IFCHR|mode, major<<8|minor&0xff|(minor&^0xff)<<12); err != nil {
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	return os.Chmod(path, os.FileMode(mode))
}

// RunAndReap runs a program and returns its exit status, and takes in what it leaves
// behind: a caller that is a subreaper, or the first process of a namespace, must.
func RunAndReap(c *exec.Cmd) (int, error) {
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

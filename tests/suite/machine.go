package suite

import (
	"fmt"
	"os/exec"
	"syscall"
)

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

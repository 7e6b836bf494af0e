package clockpin

import (
	"cmp"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// wake has a GPU that sleeps answer until done is called: newer drivers refuse to read the
// files of one (EPERM), and wake it only for who opens its node. Where that can't be done
// the refusal says it.
func (p Pins) wake(dir string) (done func()) {
	status, err := readText(dir, "power/runtime_status")
	if err != nil || !strings.HasPrefix(status, "suspend") {
		return func() {}
	}
	nodes, _ := filepath.Glob(dir + "/drm/renderD*") // the pattern is a good one
	for _, node := range nodes {
		name := filepath.Base(node)
		p.before("wake " + name)
		fd, err := unix.Open(filepath.Join(cmp.Or(p.DRI, "/dev/dri"), name), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err == nil {
			return func() { unix.Close(fd) }
		}
	}
	return func() {}
}

//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// networkPlugins is Debian's folder for them.
const networkPlugins = "/usr/lib/cni"

// nodeIP is the machine's only address apart from lo's, which a kubelet refuses.
const nodeIP = "10.77.0.1"

// tunables are settings of the kernel that a kubelet would change for the whole
// machine. It finds those that it wants in files of the tests' own.
var tunables = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// ownMachine has its own /proc, /dev, /run, /etc, /var/lib, /var/log and network, and
// four GPUs.
func ownMachine() error {
	if err := suite.OwnMachine(dir); err != nil {
		return err
	}
	for _, path := range []string{filepath.Dir(cdi.Path), filepath.Dir(oci.DefaultConfig), "/etc/cni", "/etc/containerd"} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	for _, path := range []string{"/var/lib", "/var/log"} {
		if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("cannot have an own %s: %w", path, err)
		}
	}
	if err := suite.Node("/dev/kmsg", 0o600, 1, 11); err != nil { // a kubelet reads there who is out of memory
		return err
	}
	if err := ownTunables(); err != nil {
		return err
	}
	for _, words := range []string{"link set lo up", "link add node0 type bridge", "addr add " + nodeIP + "/24 dev node0", "link set node0 up", "route add default via " + nodeIP} {
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot run ip %s: %w: %s", words, err, out)
		}
	}
	return fakeGPUs()
}

func ownTunables() error {
	for name, value := range tunables {
		file := filepath.Join("/run/tunables", strings.ReplaceAll(name, "/", "."))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot keep the kubelet from changing %s: %w", name, err)
		}
	}
	return nil
}

// hierarchies are the top folders of control groups: one, or with version 1 one for each
// controller.
func hierarchies() ([]string, error) {
	const top = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(top, "cgroup.controllers")); err == nil {
		return []string{top}, nil
	}
	return filepath.Glob(top + "/*/cgroup.procs")
}

func groupsOf(name string) ([]string, error) {
	tops, err := hierarchies()
	for i, top := range tops {
		tops[i] = filepath.Join(strings.TrimSuffix(top, "cgroup.procs"), name)
	}
	return tops, err
}

// makeGroups makes the control groups that the nodes' own are below.
func makeGroups(told string) error {
	groups, err := groupsOf(filepath.Base(told))
	for _, group := range groups {
		if err == nil {
			err = os.MkdirAll(filepath.Join(group, secondName), 0o755)
		}
	}
	return err
}

// removeGroups removes it, once no process is left.
func removeGroups(told string) error {
	groups, err := groupsOf(filepath.Base(told))
	for _, group := range groups {
		// -depth: a group goes after those below it. Files in one can't be removed.
		if out, failed := exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").CombinedOutput(); failed != nil && err == nil {
			err = fmt.Errorf("cannot remove %s: %w: %s", group, failed, out)
		}
	}
	return err
}

package healthcheck

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// nobody is the user of the program.
const nobody = 65534

// tree holds the files of the unit that the container sees. All other folders are hidden,
// such as /var, /home and /run: a list of secret files would miss future ones.
type tree struct {
	folders []string          // absolute, in order
	links   map[string]string // bin -> usr/bin, by the name below /
}

// findTree returns the system's programs and libraries, including AMD's, and the folder of
// /srv with the command.
func findTree(r host.Root, command string) (t tree) {
	t.links = map[string]string{}
	for _, name := range []string{"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"} {
		st, err := r.Lstat("/" + name)
		switch {
		case err != nil:
		case st.IsDir():
			t.folders = append(t.folders, "/"+name)
		case st.Mode()&fs.ModeSymlink != 0:
			if to, err := r.Readlink("/" + name); err == nil {
				t.links[name] = to
			}
		}
	}
	if below, in := strings.CutPrefix(command, "/srv/"); in {
		folder, _, _ := strings.Cut(below, "/")
		t.folders = append(t.folders, path.Join("/srv", folder))
	}
	return t
}

// maskedPaths lists files that the program must not read. The mode of a file is not enough:
// if the nodes of a GPU have the group root, the program gets this group.
var maskedPaths = []string{
	"/etc/concourse-ci-machine", "/etc/default/concourse", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers",
	"/etc/sudoers.d",
	"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
	"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
}

// spec returns the container's config.json. /sys is the machine's, as in a task: ROCm finds
// the GPUs there, and can open only those with a node in the container.
func (j Job) spec(t tree) (*rspec.Spec, error) {
	mount := func(kind, at string, options ...string) rspec.Mount {
		return rspec.Mount{Destination: at, Type: kind, Source: kind, Options: options}
	}
	mounts := []rspec.Mount{
		mount("proc", "/proc", "nosuid", "noexec", "nodev"),
		mount("sysfs", "/sys", "nosuid", "noexec", "nodev", "ro"),
		mount("tmpfs", "/dev", "nosuid", "strictatime", "mode=755", "size=64k"),
		mount("tmpfs", "/dev/shm", "nosuid", "noexec", "nodev", "mode=1777", "size=1g"),
		mount("tmpfs", "/tmp", "nosuid", "nodev", "mode=1777", "size=1g"),
		mount("tmpfs", "/run", "nosuid", "noexec", "nodev", "mode=755", "size=64k"),
	}
	only := []string{"rbind", "ro", "nosuid", "nodev"}
	if j.Recursive {
		only = append(only, "rro", "rnosuid", "rnodev")
	}
	for _, p := range t.folders {
		mounts = append(mounts, rspec.Mount{Destination: p, Type: "bind", Source: p, Options: only})
	}
	s := &rspec.Spec{
		Version: "1.0.2", Hostname: "gpu-health-check",
		Root: &rspec.Root{Path: "rootfs", Readonly: true}, Mounts: mounts,
		Process: &rspec.Process{
			User: rspec.User{UID: nobody, GID: nobody}, Args: []string{j.Command}, Cwd: "/tmp", NoNewPrivileges: true,
			Capabilities: &rspec.LinuxCapabilities{},
			Rlimits:      []rspec.POSIXRlimit{{Type: "RLIMIT_CORE"}}, // a core with a GPU's memory is large
			Env: []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin",
				"HOME=/tmp", "LANG=C.UTF-8",
				fmt.Sprintf("GPU_INDEX=%d", j.Index), "GPU_PCI=" + j.PCI},
		},
		Linux: &rspec.Linux{
			CgroupsPath: "/" + j.id(),
			Resources:   &rspec.LinuxResources{Devices: []rspec.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			MaskedPaths: maskedPaths,
			ReadonlyPaths: []string{
				"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	for _, n := range []rspec.LinuxNamespaceType{
		rspec.PIDNamespace, rspec.NetworkNamespace, rspec.IPCNamespace, rspec.UTSNamespace,
		rspec.MountNamespace, rspec.CgroupNamespace,
	} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, rspec.LinuxNamespace{Type: n})
	}
	edits := cdilib.ContainerEdits{ContainerEdits: &specs.ContainerEdits{DeviceNodes: j.Devices}}
	if err := edits.Apply(s); err != nil {
		return nil, fmt.Errorf("cannot give the container GPU %d: %w", j.Index, err)
	}
	for _, d := range s.Linux.Devices {
		// No group is needed if other users may use the node.
		if groups := &s.Process.User.AdditionalGids; d.GID != nil && d.FileMode != nil &&
			*d.FileMode&0o006 != 0o006 && !slices.Contains(*groups, *d.GID) {
			*groups = append(*groups, *d.GID)
		}
	}
	return s, nil
}

// Package machine reads properties of the machine: its name, its container, its system and
// its kernel. It never changes the machine.
package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Machine holds the properties, which are read from files.
type Machine struct {
	Hostname  string // in LXD also the container's name on its host
	Container string // kind of the container: "lxc", "docker"; "" for metal or a VM
	Distro    string // ID of os-release: ubuntu
	Series    string // VERSION_CODENAME of os-release: noble, jammy
	// Manager runs the container, and has the commands of its host. The zero value is LXD.
	Manager wellknown.Manager
	// MakesNodes reports that root may create device nodes. That is not possible in a user
	// namespace, such as an unprivileged LXD container.
	MakesNodes bool
	// RecursiveReadonly reports that the kernel (5.12 and newer) can make a mount read-only
	// together with all mounts below it.
	RecursiveReadonly bool
	// NoProfiles reports that Juju does not apply lxd-profile.yaml of a charm. Juju 4 and
	// newer do not. The version is in model.Facts.Juju, not in a file.
	NoProfiles bool
}

// Under returns the machine with the properties that depend on the unit's version of Juju,
// such as 3.6.11 or 4.1-beta2.
func (m Machine) Under(juju string) Machine {
	major, _, _ := strings.Cut(juju, ".")
	n, err := strconv.Atoi(major)
	m.NoProfiles = err == nil && n >= 4
	return m
}

// KFDVerb returns LXD's verb to change the device kfd: set for a device of the container,
// override for a device of a profile.
func (m Machine) KFDVerb() string {
	if m.NoProfiles {
		return "set"
	}
	return "override"
}

// LXD reports whether LXD or another manager of system containers assigns the devices.
func (m Machine) LXD() bool { return m.Container == "lxc" }

// Observe reads the properties. An unreadable file leaves its property empty.
func Observe(r host.Root) Machine {
	m := Machine{Hostname: "this-container"}
	// The kernel's name is read last. It is the container's name in LXD, which remedies
	// need, whatever the image's file contains.
	for _, file := range []string{"/etc/hostname", "/proc/sys/kernel/hostname"} {
		if s, err := r.ReadText(file); err == nil && s != "" {
			m.Hostname = s
		}
	}
	// systemd writes the kind of container to this file, only in a container.
	if s, err := r.ReadText("/run/systemd/container"); err == nil {
		m.Container = s
	}
	// Without systemd, LXC marks the environment of init.
	if m.Container == "" {
		if env, err := r.ReadFile("/proc/1/environ"); err == nil {
			for kv := range bytes.SplitSeq(env, []byte{0}) {
				if v, ok := bytes.CutPrefix(kv, []byte("container=")); ok {
					m.Container = string(v)
				}
			}
		}
	}
	if data, err := r.ReadFile("/etc/os-release"); err == nil {
		m.Distro, m.Series = osRelease(data)
	}
	kernel, err := r.ReadText("/proc/sys/kernel/osrelease")
	if m.LXD() {
		mounts, _ := r.ReadFile("/proc/self/mountinfo") // without it, LXD is assumed
		m.Manager = wellknown.ManagerOf(string(mounts), kernel, m.Hostname)
	}
	if err == nil {
		var major, minor int
		if n, _ := fmt.Sscanf(kernel, "%d.%d", &major, &minor); n == 2 {
			m.RecursiveReadonly = major > 5 || major == 5 && minor >= 12
		}
	}
	if text, err := r.ReadText("/proc/self/uid_map"); err == nil {
		m.MakesNodes = strings.Join(strings.Fields(text), " ") == wholeUIDMap
	}
	return m
}

// wholeUIDMap is the uid_map of the first user namespace, see user_namespaces(7).
const wholeUIDMap = "0 0 4294967295"

// osRelease reads os-release(5): KEY=value lines with optional quotes.
func osRelease(data []byte) (id, codename string) {
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		key, value, _ := strings.Cut(strings.TrimSpace(sc.Text()), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			id = value
		case "VERSION_CODENAME":
			codename = value
		}
	}
	return id, codename
}

// Package machine reads what a machine says of itself: its name, what contains it,
// its system and kernel. It changes nothing.
package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// Machine is what the charm knows of the machine itself, read from files.
type Machine struct {
	Hostname  string // of an LXD unit also the container's name on its host
	Container string // what contains it: "lxc", "docker"; "" for metal or a VM
	Distro    string // ID of os-release: ubuntu
	Series    string // VERSION_CODENAME of os-release: noble, jammy
	// MakesNodes is true where root may make device nodes: not in a user
	// namespace, as unprivileged LXD containers are.
	MakesNodes bool
	// RecursiveReadonly is true where the kernel (5.12 and newer) can make a
	// mount read-only with all that is mounted below it.
	RecursiveReadonly bool
	// NoProfiles is true where Juju gives containers no LXD profile of a charm,
	// which lxd-profile.yaml is before Juju 4. No file says so: model.Facts.Juju does.
	NoProfiles bool
}

// Under is the machine as the unit's Juju, such as 3.6.11 or 4.1-beta2, treats it.
func (m Machine) Under(juju string) Machine {
	major, _, _ := strings.Cut(juju, ".")
	n, err := strconv.Atoi(major)
	m.NoProfiles = err == nil && n >= 4
	return m
}

// KFDVerb changes the device kfd: the container's own, or that of a profile.
func (m Machine) KFDVerb() string {
	if m.NoProfiles {
		return "set"
	}
	return "override"
}

// LXD reports whether an LXD host decides what devices there are.
func (m Machine) LXD() bool { return m.Container == "lxc" }

func Observe(r host.Root) Machine {
	m := Machine{Hostname: "this-container"}
	// The kernel's name, the later one, is what LXD calls the container, whatever
	// the image's file says; the remedies name it.
	for _, file := range []string{"/etc/hostname", "/proc/sys/kernel/hostname"} {
		if s, err := r.ReadText(file); err == nil && s != "" {
			m.Hostname = s
		}
	}
	// systemd writes the kind of container there, in a container only.
	if s, err := r.ReadText("/run/systemd/container"); err == nil {
		m.Container = s
	}
	// Without systemd, LXC itself leaves its mark in init's environment.
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
	if text, err := r.ReadText("/proc/sys/kernel/osrelease"); err == nil {
		var major, minor int
		if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n == 2 {
			m.RecursiveReadonly = major > 5 || major == 5 && minor >= 12
		}
	}
	if text, err := r.ReadText("/proc/self/uid_map"); err == nil {
		m.MakesNodes = strings.Join(strings.Fields(text), " ") == wholeUIDMap
	}
	return m
}

// wholeUIDMap is user_namespaces(7)'s uid_map of the first user namespace.
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

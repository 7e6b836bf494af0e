package wellknown

import (
	"cmp"
	"strings"
)

// ManagerKind names a program that runs system containers.
type ManagerKind string

// The kinds of managers. "" is LXD.
const (
	LXD     ManagerKind = "LXD"
	Incus   ManagerKind = "Incus"
	Proxmox ManagerKind = "Proxmox VE"
	LXC     ManagerKind = "LXC"
)

// Manager returns commands for the host of a system container.
type Manager struct {
	Kind ManagerKind
	Name string // of the container on its host; a number for Proxmox VE
}

// ManagerOf returns the manager of a container with a hostname, by its mountinfo, see proc(5), and
// its kernel's release. LXD and Incus mount folders of their own, and LXC shows the folder of the
// root. Anything else is LXD.
func ManagerOf(mountinfo, kernel, hostname string) Manager {
	m := Manager{LXD, hostname}
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		switch root, at := f[3], f[4]; {
		case at == "/dev/incus" || at == "/dev/.incus-mounts":
			return Manager{Incus, hostname}
		case at == "/dev/lxd" || at == "/dev/.lxd-mounts":
			return Manager{LXD, hostname}
		case at != "/":
		case strings.HasSuffix(kernel, "-pve"):
			m = Manager{Proxmox, proxmoxID(line)}
		case strings.HasSuffix(root, "/rootfs") && strings.Contains(root, "/lxc/"):
			_, name, _ := strings.Cut(root, "/lxc/")
			m = Manager{LXC, strings.TrimSuffix(name, "/rootfs")}
		}
	}
	return m
}

// proxmoxID returns the number of a container in the name of its volume, such as
// rpool/data/subvol-101-disk-0 and /dev/mapper/pve-vm--101--disk--0.
func proxmoxID(line string) string {
	for _, before := range []string{"subvol-", "-vm-"} {
		_, rest, _ := strings.Cut(line, before)
		rest = strings.TrimLeft(rest, "-")
		if digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]; digits != "" {
			return digits
		}
	}
	return "<id>"
}

// Host names the container's host.
func (m Manager) Host() string { return "the " + string(cmp.Or(m.Kind, LXD)) + " host" }

// On returns the remedy that runs a command on the host.
func (m Manager) On(command string) string {
	return "on the " + string(cmp.Or(m.Kind, LXD)) + " host run: " + command
}

// device returns the command of LXD or Incus that changes a device of the container.
func (m Manager) device(verb, device string) string {
	tool := "lxc"
	if m.Kind == Incus {
		tool = "incus"
	}
	return tool + " config device " + verb + " " + m.Name + " " + device
}

// Restart returns the command that restarts the container.
func (m Manager) Restart() string {
	switch m.Kind {
	case Incus:
		return "incus restart " + m.Name
	case Proxmox:
		return "pct reboot " + m.Name
	case LXC:
		return "lxc-stop -r -n " + m.Name
	}
	return "lxc restart " + m.Name
}

// The group video has the number 44 on every Debian and Ubuntu, and in each task.
const (
	kfdDevice    = "kfd unix-char source=/dev/kfd path=/dev/kfd gid=44 required=false"
	openToVideo  = " gid=44 mode=0660 "
	proxmoxVideo = ",gid=44,mode=0660"
)

// PassKFD returns the command that gives the container /dev/kfd. It is not required, because a
// container with a required device does not start while the host has none.
func (m Manager) PassKFD() string {
	switch m.Kind {
	case Proxmox:
		return "pct set " + m.Name + " --dev0 /dev/kfd" + proxmoxVideo + " && " + m.Restart()
	case LXC:
		return m.mount("/dev/kfd")
	}
	return m.device("add", kfdDevice)
}

// PassGPU returns the command that gives the container a GPU: "pci=0000:03:00.0" or "id=ID".
func (m Manager) PassGPU(which string) string {
	switch m.Kind {
	case Proxmox:
		return "pct set " + m.Name + " --dev1 /dev/dri/<render node>" + proxmoxVideo + " && " + m.Restart() +
			nodesOnHost
	case LXC:
		return m.mount("/dev/dri/<render node>") + nodesOnHost
	}
	return m.device("add", "gpu0 gpu "+which+" gid=44")
}

const nodesOnHost = " (ls -l /dev/dri/by-path shows the nodes of GPUs)"

// mount returns the command that gives a container of LXC a node.
func (m Manager) mount(node string) string {
	return "printf 'lxc.mount.entry = " + node + " " + strings.TrimPrefix(node, "/") +
		` none bind,optional,create=file\nlxc.cgroup2.devices.allow = c %d:%d rwm\n' $(stat -c '%Hr %Lr' ` + node +
		") >> /var/lib/lxc/" + m.Name + "/config"
}

// OpenGPU returns the command that lets tasks of the container open a GPU's nodes. The status of a
// unit and a refusal show the same command.
func (m Manager) OpenGPU() string {
	switch m.Kind {
	case Proxmox:
		return m.PassGPU("")
	case LXC:
		return m.open("/dev/dri/<render node>") + nodesOnHost
	}
	shown := strings.TrimSuffix(m.device("show", ""), " ")
	return m.device("set", "gpu0"+openToVideo) + "(gpu0: the device's name in " + shown + ")"
}

// OpenKFD returns the command for /dev/kfd. verb is set, or override if a profile has the
// device, which only the host can see.
func (m Manager) OpenKFD(verb string) string {
	switch m.Kind {
	case Proxmox:
		return m.PassKFD()
	case LXC:
		return m.open("/dev/kfd")
	}
	return m.device(verb, "kfd"+openToVideo) + "(set if the container has the device, override if a profile has it)"
}

// open returns the command that lets the group video of a container of LXC open a node. The
// container's numbers begin at the host's number in lxc.idmap.
func (m Manager) open(node string) string {
	return "chgrp $((44 + $(sed -n 's/^lxc.idmap *= *g 0 \\([0-9]*\\).*/\\1/p' /var/lib/lxc/" + m.Name + "/config))) " +
		node + " && chmod 0660 " + node
}

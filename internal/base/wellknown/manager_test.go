package wellknown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestManagerOfAContainerIsKnownByItsMounts(t *testing.T) {
	const (
		zfs   = "1 2 0:5 / / rw - zfs default/containers/c rw\n"
		other = "3 2 0:9 / "
	)
	for name, c := range map[string]struct {
		mounts, kernel string
		want           Manager
	}{
		"LXD":                 {zfs + other + "/dev/lxd rw - tmpfs tmpfs rw\n", "6.8.0-60-generic", Manager{LXD, "c"}},
		"LXD with its mounts": {zfs + other + "/dev/.lxd-mounts rw - tmpfs tmpfs rw\n", "6.8.12-4-pve", Manager{LXD, "c"}},
		"Incus":               {zfs + other + "/dev/incus rw - tmpfs tmpfs rw\n", "6.12.48", Manager{Incus, "c"}},
		"Proxmox VE on ZFS": {"1 2 0:5 / / rw - zfs rpool/data/subvol-101-disk-0 rw\n", "6.14.8-2-pve",
			Manager{Proxmox, "101"}},
		"Proxmox VE on LVM": {"1 2 252:5 / / rw - ext4 /dev/mapper/pve-vm--102--disk--0 rw\n", "6.14.8-2-pve",
			Manager{Proxmox, "102"}},
		"Proxmox VE in a file": {"1 2 7:0 / / rw - ext4 /dev/loop0 rw\n", "6.14.8-2-pve", Manager{Proxmox, "<id>"}},
		"LXC": {"1 2 8:1 /var/lib/lxc/gpu-ci/rootfs / rw - ext4 /dev/sda1 rw\n", "6.12.48",
			Manager{LXC, "gpu-ci"}},
		"nothing is known": {"short\n", "", Manager{LXD, "c"}},
	} {
		require.Equal(t, c.want, ManagerOf(c.mounts, c.kernel, "c"), name)
	}
}

// Each remedy names a program that this host has.
func TestRemediesAreOfTheHostsManager(t *testing.T) {
	const device = " config device add 7 kfd unix-char source=/dev/kfd path=/dev/kfd gid=44 required=false"
	for kind, c := range map[ManagerKind]struct {
		program                    string
		on, restart, kfd, gpu, may string
	}{
		"": {"lxc ", "on the LXD host run: x", "lxc restart 7", "lxc" + device,
			"lxc config device add 7 gpu0 gpu pci=0000:03:00.0 gid=44",
			"lxc config device override 7 kfd gid=44 mode=0660 "},
		Incus: {"incus ", "on the Incus host run: x", "incus restart 7", "incus" + device,
			"incus config device add 7 gpu0 gpu pci=0000:03:00.0 gid=44",
			"incus config device override 7 kfd gid=44 mode=0660 "},
		Proxmox: {"pct ", "on the Proxmox VE host run: x", "pct reboot 7",
			"pct set 7 --dev0 /dev/kfd,gid=44,mode=0660 && pct reboot 7",
			"pct set 7 --dev1 /dev/dri/<render node>,gid=44,mode=0660 && pct reboot 7",
			"pct set 7 --dev0 /dev/kfd,gid=44,mode=0660"},
		LXC: {"", "on the LXC host run: x", "lxc-stop -r -n 7",
			"lxc.mount.entry = /dev/kfd dev/kfd none bind,optional,create=file",
			"lxc.mount.entry = /dev/dri/<render node> dev/dri/<render node> none", "/dev/kfd && chmod 0660 /dev/kfd"},
	} {
		m := Manager{kind, "7"}
		require.Equal(t, c.on, m.On("x"))
		require.Equal(t, c.restart, m.Restart())
		require.Contains(t, m.PassKFD(), c.kfd)
		require.Contains(t, m.PassGPU("pci=0000:03:00.0"), c.gpu)
		require.Contains(t, m.OpenKFD("override"), c.may)
		for _, command := range []string{m.Restart(), m.PassKFD(), m.PassGPU("id=ID"), m.OpenGPU(), m.OpenKFD("set")} {
			require.Regexp(t, "^"+c.program, command)
		}
	}
}

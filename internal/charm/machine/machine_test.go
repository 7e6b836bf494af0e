package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestMachineIsReadFromItsFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  Machine
	}{
		"nothing": {nil, Machine{Hostname: "this-container"}},
		"LXD unit": {map[string]string{"/etc/hostname": "juju-1-2\n", "/run/systemd/container": "lxc\n",
			"/etc/os-release": "# a comment\nNAME='Ubuntu'\nID=ubuntu\nVERSION_CODENAME=\"noble\"\nbroken\n", "/proc/self/uid_map": " 0 1000000 65536\n"},
			Machine{Hostname: "juju-1-2", Container: "lxc", Distro: "ubuntu", Series: "noble", Manager: wellknown.Manager{Kind: wellknown.LXD, Name: "juju-1-2"}}},
		"container of Proxmox VE": {map[string]string{"/etc/hostname": "ci\n", "/run/systemd/container": "lxc\n", "/proc/sys/kernel/osrelease": "6.14.8-2-pve\n",
			"/proc/self/mountinfo": "1 2 0:5 / / rw - zfs rpool/data/subvol-101-disk-0 rw\n"},
			Machine{Hostname: "ci", Container: "lxc", RecursiveReadonly: true, Manager: wellknown.Manager{Kind: wellknown.Proxmox, Name: "101"}}},
		"container without systemd": {map[string]string{"/proc/1/environ": "TERM=x\x00container=lxc\x00A=b"},
			Machine{Hostname: "this-container", Container: "lxc", Manager: wellknown.Manager{Kind: wellknown.LXD, Name: "this-container"}}},
		"metal": {map[string]string{"/etc/hostname": "gpu1", "/proc/1/environ": "TERM=x\x00", "/proc/self/uid_map": "         0          0 4294967295\n"},
			Machine{Hostname: "gpu1", MakesNodes: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			for path, text := range tt.files {
				hosttest.Put(t, r, path, text)
			}
			require.Equal(t, tt.want, Observe(r))
			require.Equal(t, tt.want.Container == "lxc", tt.want.LXD())
		})
	}
}

func FuzzOSRelease(f *testing.F) {
	f.Add([]byte("ID=ubuntu\nVERSION_CODENAME=noble\n"))
	f.Add([]byte("ID='a\"\n=\nVERSION_CODENAME\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, series := osRelease(data)
		require.NotContains(t, id+series, "\n")
	})
}

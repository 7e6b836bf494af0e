package resource

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Names of mounted folders and of their sources come from users.
func FuzzMountinfo(f *testing.F) {
	f.Add("36 35 98:0 /x /mnt\\0402 rw,noatime master:1 - ext4 /dev/sda1 rw\n37 35 0:5 / /mnt rw,nosuid - fuse.sshfs me@h: rw\n")
	f.Add("36 35 98:0 / /a\\04 rw - tmpfs  rw\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := hosttest.Root(t)
		hosttest.Put(t, r, "/proc/self/mountinfo", text)
		all, err := readMounts(r)
		if err != nil {
			require.NotContains(t, err.Error(), "\n", "an error has one line")
			return
		}
		for _, m := range all {
			m.honours()
			m.local()
		}
		all.mountOf("/mnt/2/x")
	})
}

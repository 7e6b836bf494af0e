//go:build e2e

package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// folders makes folders as the charm leaves them, each with a mount below.
func (b *bed) folders(readonly string) {
	for name, mode := range map[string]os.FileMode{"models": 0o755, "out_rw": 0o777 | os.ModeSticky, "out_writable": 0o777 | os.ModeSticky} {
		below := b.path(filepath.Join("srv", name, "below"))
		require.NoError(b.t, os.MkdirAll(below, 0o755))
		require.NoError(b.t, os.Chmod(b.path("srv/"+name), mode))
		require.NoError(b.t, syscall.Mount("tmpfs", below, "tmpfs", 0, "mode=1777"))
		b.t.Cleanup(func() { require.NoError(b.t, syscall.Unmount(below, syscall.MNT_DETACH)) })
	}
	require.NoError(b.t, os.Chmod(b.path("srv"), 0o755))
	b.configure(oci.Config{Folders: &oci.Folders{Root: b.path("srv"), Readonly: readonly}})
}

// writes tries to write into each folder and into what is mounted below.
func (b *bed) writes(uid int) map[string]string {
	script := ""
	for _, name := range []string{"models", "models/below", "out_rw", "out_rw/below", "out_writable"} {
		path := filepath.Join(b.path("srv"), name, fmt.Sprintf("of%d", uid))
		script += fmt.Sprintf("if e=$( { : > %s; } 2>&1); then echo %s: written; else echo \"%s: ${e##*: }\"; fi\n", path, name, name)
	}
	script += "busybox awk '$5 ~ /srv/ { split($5, p, \"/srv/\"); print p[2] \" flags: \" $6 }' /proc/self/mountinfo\n"
	b.write("process", process(uid, script))
	return found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
}

const readOnlyFS = "Read-only file system"

// D41, B14, B16: a folder for reading is so below, too; one for writing really
// is writable by a task of any user, as the host's file system sees it.
func TestFoldersAreForReadingOrWritingAllTheWayDown(t *testing.T) {
	for version, runc := range runcs(t) {
		for _, s := range settings[:3] {
			t.Run(s.name+", runc "+version, func(t *testing.T) {
				b := s.bed(t, runc, 0o660)
				b.folders(oci.Recursive)
				b.start()
				for _, uid := range []int{0, 1000} {
					got := b.writes(uid)
					for _, name := range []string{"models", "models/below"} {
						require.Equal(t, readOnlyFS, got[name], got)
						require.Contains(t, got[name+" flags"], "ro,nosuid,nodev", got)
					}
					for _, name := range []string{"out_rw", "out_rw/below", "out_writable"} {
						require.Equal(t, "written", got[name], got)
						if name != "out_writable" {
							require.Contains(t, got[name+" flags"], "nosuid,nodev", got)
						}
					}
					require.FileExists(t, b.path(fmt.Sprintf("srv/out_rw/of%d", uid)))
				}
				var st unix.Stat_t
				require.NoError(t, unix.Stat(b.path("srv/out_rw/of1000"), &st))
				want := uint32(1000)
				if len(s.maps) == 1 {
					want += s.maps[0].HostID
				}
				require.Equal(t, want, st.Uid, "no id mapping is in between")
			})
		}
	}
}

// A task runs the unit's programs, cannot change them, and has the current ones: a file
// that is replaced on the unit is so in a container that runs.
func TestToolsAreRunAndNotChanged(t *testing.T) {
	b := newBed(t, 0o660)
	b.maps = concourse
	tools := b.path("tools")
	put := func(text string) {
		require.NoError(t, os.WriteFile(tools+"/.new", []byte("#!/bin/busybox sh\necho "+text+"\n"), 0o755))
		require.NoError(t, os.Rename(tools+"/.new", tools+"/gpu-baseline"))
	}
	require.NoError(t, os.Mkdir(tools, 0o755))
	put("first")
	b.configure(oci.Config{Tools: tools})
	b.start()
	runs := func(uid int, script string) string {
		b.write("process", process(uid, script))
		return strings.TrimSpace(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
	}
	require.Equal(t, "first", runs(0, tools+"/gpu-baseline"))
	require.Contains(t, runs(0, "{ : >"+tools+"/gpu-baseline; } 2>&1; true"), readOnlyFS)
	put("second")
	require.Equal(t, "second", runs(1000, tools+"/gpu-baseline"))
}

// The documented difference of readonly "ro".
func TestPlainReadOnlyLeavesMountsBelowWritable(t *testing.T) {
	b := newBed(t, 0o660)
	b.maps = concourse
	b.folders(oci.TopOnly)
	b.start()
	got := b.writes(1000)
	require.Equal(t, readOnlyFS, got["models"])
	require.Equal(t, "written", got["models/below"])
	require.Contains(t, got["models flags"], "ro,nosuid,nodev")
}

// A FUSE file system without a program behind it answers no one, as NFS does when its
// server no longer exists; it needs no server to try.
func TestDeadMountDoesNotHangACreate(t *testing.T) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		require.NoError(t, suite.Node("/dev/fuse", 0o666, 10, 229))
		fd, err = unix.Open("/dev/fuse", unix.O_RDWR, 0)
	}
	if err != nil {
		t.Skip("this kernel has no FUSE to make a dead mount of: ", err)
	}
	b := newBed(t, 0o660)
	b.maps = concourse
	b.folders(oci.Recursive)
	dead := b.path("srv/dead")
	require.NoError(t, os.Mkdir(dead, 0o755))
	require.NoError(t, unix.Mount("fuse", dead, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(dead, unix.MNT_DETACH))
		require.NoError(t, unix.Close(fd)) // lets go who still waits
	})
	b.start()
	got := b.writes(1000)
	require.Equal(t, "written", got["out_rw"])
	require.NotContains(t, got, "dead flags")

	b.delete()
	b.configure(oci.Config{Folders: &oci.Folders{Root: b.path("srv"), Names: []string{"dead"}}})
	out, err := b.refused()
	require.Error(t, err)
	require.Contains(t, out, "cannot give the container the folder "+dead+": it does not answer within 2s: what serves it looks dead")
}

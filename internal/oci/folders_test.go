package oci

import (
	"os"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withFolders is a testbed of a unit that gives folders and no GPU.
func withFolders(t *testing.T, change func(*Folders)) *testbed {
	t.Helper()
	b := newTestbed(t)
	f := &Folders{Root: b.path("srv")}
	for _, name := range []string{"models", "cache_rw", "out_writable", ".hidden", "odd\nname", "rw", "ünï,cödé"} {
		require.NoError(t, os.MkdirAll(b.path("srv/"+name), 0o755))
	}
	require.NoError(t, os.WriteFile(b.path("srv/file_rw"), nil, 0o644))
	require.NoError(t, os.Symlink("/etc", b.path("srv/link_rw")))
	change(f)
	b.configure(t, func(c *Config) { c.GPUs, c.Folders = nil, f })
	return b
}

func (b *testbed) folders(t *testing.T, before int) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, m := range b.result(t).added(before) {
		require.Equal(t, m.Source, m.Destination)
		require.Equal(t, "bind", m.Type)
		got[strings.TrimPrefix(m.Source, b.path("srv")+"/")] = strings.Join(m.Options, ",")
	}
	return got
}

const (
	readOnly  = "rbind,ro,nosuid,nodev,rnosuid,rnodev,rro"
	readWrite = "rbind,rw,nosuid,nodev,rnosuid,rnodev"
)

// D41, D53: only tasks get folders, and an odd one stops no one.
func TestTaskGetsTheUnitsFolders(t *testing.T) {
	b := withFolders(t, func(*Folders) {})
	b.bundle(t, "task")
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	require.Equal(t, map[string]string{
		"models": readOnly, "rw": readOnly, "ünï,cödé": readOnly, "cache_rw": readWrite, "out_writable": readWrite,
	}, b.folders(t, before))
	once := b.text(t)
	require.NoError(t, b.create())
	require.True(t, compact(t, once) == compact(t, b.text(t)), "twice is once")
}

func TestFoldersOfOtherContainersAreAnOption(t *testing.T) {
	for _, kind := range []string{"get", "check"} {
		b := withFolders(t, func(*Folders) {})
		b.bundle(t, kind)
		before := b.text(t)
		require.NoError(t, b.create())
		require.Equal(t, before, b.text(t))

		b = withFolders(t, func(f *Folders) { f.Containers = All })
		b.bundle(t, kind)
		mounts := len(b.result(t).Mounts)
		require.NoError(t, b.create())
		require.Len(t, b.folders(t, mounts), 5)
	}
}

func TestNamedFoldersAreGivenOrTheContainerIsRefused(t *testing.T) {
	b := withFolders(t, func(f *Folders) { f.Names, f.Readonly = []string{"models", "cache_rw"}, TopOnly })
	b.bundle(t, "task")
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	require.Equal(t, map[string]string{"models": "rbind,ro,nosuid,nodev", "cache_rw": "rbind,rw,nosuid,nodev"},
		b.folders(t, before))
	for _, name := range []string{"gone", "file_rw", "link_rw"} {
		b := withFolders(t, func(f *Folders) { f.Names = []string{"models", name} })
		b.bundle(t, "task")
		require.ErrorContains(t, b.create(), "cannot give the container the folder "+b.path("srv/"+name)+": "+
			"no such directory (links are not followed)")
		require.Nil(t, b.argv)
	}
}

// D53: a unit without /srv was blocked.
func TestMissingFolderOfFoldersIsNotAnError(t *testing.T) {
	b := withFolders(t, func(f *Folders) { f.Root = "/nowhere" })
	b.bundle(t, "task")
	require.NoError(t, b.create())
	b = withFolders(t, func(f *Folders) { f.Root = f.Root + "/file_rw" })
	b.bundle(t, "task")
	require.ErrorContains(t, b.create(), "not a directory")
}

// Tasks have the programs with a GPU and without, other containers never.
func TestTasksFindTheUnitsTools(t *testing.T) {
	b := newTestbed(t)
	tools := b.path("tools")
	require.NoError(t, os.Mkdir(tools, 0o755))
	b.configure(t, func(c *Config) { c.Tools = tools })
	mounts := func(kind string, more ...func(map[string]any)) (got []edits.Mount) {
		b.bundle(t, kind, more...)
		require.NoError(t, b.create())
		for _, m := range b.result(t).Mounts {
			if m.Destination == tools {
				got = append(got, edits.Mount{Destination: m.Destination, Type: m.Type, Source: m.Source,
					Options: m.Options})
			}
		}
		return got
	}
	want := []edits.Mount{{Destination: tools, Type: "bind", Source: tools,
		Options: []string{"bind", "ro", "nosuid", "nodev"}}}
	require.Equal(t, want, mounts("task"))
	require.Equal(t, want, mounts("task", env("AMD_VISIBLE_DEVICES=none")))
	require.Empty(t, mounts("check"))
	own := mounts("task", func(spec map[string]any) {
		spec["mounts"] = append(spec["mounts"].([]any),
			map[string]any{"destination": tools, "source": "/var/lib/volume", "type": "bind"})
	})
	require.Len(t, own, 1)
	require.Equal(t, "/var/lib/volume", own[0].Source)
	require.NoError(t, os.Remove(tools))
	require.Empty(t, mounts("task"), "no task fails for want of them")
}

func TestMountOfTheTaskWins(t *testing.T) {
	b := withFolders(t, func(*Folders) {})
	b.bundle(t, "task", func(spec map[string]any) {
		spec["mounts"] = append(spec["mounts"].([]any),
			map[string]any{"destination": b.path("srv/models"), "source": "/var/lib/volume", "type": "bind"})
	})
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	require.NotContains(t, b.folders(t, before), "models")
	require.Contains(t, b.text(t), "/var/lib/volume")
}

// mountRoots makes paths roots of mounts without a disk, as NFS has, and records how each
// path is asked.
func (b *testbed) mountRoots(t *testing.T, names ...string) *[]string {
	var asked []string
	b.statx = func(_ int, path string, flags, _ int, st *unix.Statx_t) error {
		require.Equal(t, unix.AT_STATX_DONT_SYNC, flags&unix.AT_STATX_DONT_SYNC, "a server is asked")
		require.Equal(t, unix.AT_SYMLINK_NOFOLLOW, flags&unix.AT_SYMLINK_NOFOLLOW)
		asked = append(asked, path)
		var real unix.Stat_t
		require.NoError(t, unix.Lstat(path, &real))
		*st = unix.Statx_t{Dev_major: 8, Mode: uint16(real.Mode)}
		for _, n := range names {
			if path == b.path(n) {
				*st = unix.Statx_t{Attributes: unix.STATX_ATTR_MOUNT_ROOT, Mode: unix.S_IFDIR}
			}
		}
		return nil
	}
	return &asked
}

// The kernel is asked for what it knows of a folder; what a server must answer, another
// process asks.
func TestDeadNetworkMountIsLeftOutAndNamedOneIsRefused(t *testing.T) {
	b := withFolders(t, func(*Folders) {})
	b.bundle(t, "task")
	asked := b.mountRoots(t, "srv/models", "srv/rw")
	b.dead = map[string]string{b.path("srv/models"): "does not answer"}
	before := len(b.result(t).Mounts)
	require.NoError(t, b.create())
	require.NotContains(t, b.folders(t, before), "models")
	require.Contains(t, b.folders(t, before), "rw")
	require.Equal(t, []string{b.path("srv/models"), b.path("srv/rw")}, b.asked)
	entries, err := os.ReadDir(b.path("srv"))
	require.NoError(t, err)
	want := []string{b.path("srv")}
	for _, e := range entries {
		want = append(want, b.path("srv/"+e.Name()))
	}
	require.Equal(t, want, *asked, "the folder of folders and what is in it, once, none below")

	var out strings.Builder
	require.Zero(t, b.run([]string{"x", "wrapper-info"}, &out, &out))
	require.Contains(t, out.String(), "left out \""+b.path("srv/models")+"\" does not answer\n")
	require.Contains(t, out.String(), `odd\nname" has a control character in its name`)
	require.Contains(t, out.String(), "folder "+b.path("srv/cache_rw")+" rw for tasks\n")

	b = withFolders(t, func(f *Folders) { f.Names = []string{"models"} })
	b.bundle(t, "task")
	b.mountRoots(t, "srv/models")
	b.dead = map[string]string{b.path("srv/models"): "does not answer"}
	require.ErrorContains(t, b.create(),
		"cannot give the container the folder "+b.path("srv/models")+": it does not answer")

	b = withFolders(t, func(*Folders) {})
	b.bundle(t, "task")
	b.mountRoots(t, "srv")
	b.dead = map[string]string{b.path("srv"): "does not answer"}
	require.ErrorContains(t, b.create(),
		"cannot give the container the folders of "+b.path("srv")+": it does not answer")
}

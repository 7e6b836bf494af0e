package rungroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// execute runs a filter as the kernel does, and reports whether it allows an access.
func execute(t *testing.T, code []instruction, kind uint32, d Device) bool {
	t.Helper()
	context := []uint32{7<<16 | kind, d.Major, d.Minor}
	var r [16]int64
	for at := 0; ; at++ {
		require.Less(t, at, len(code), "it runs off the end")
		i := code[at]
		to, from := i.registers&15, i.registers>>4
		switch i.code {
		case loadWord:
			require.Equal(t, uint8(1), from)
			r[to] = int64(context[i.offset/4])
		case and:
			r[to] &= int64(i.value)
		case set:
			r[to] = int64(i.value)
		case jumpNotEqual:
			if r[to] != int64(i.value) {
				at += int(i.offset)
			}
		case jumpEqual:
			if r[to] == int64(i.value) {
				at += int(i.offset)
			}
		case exit:
			return r[0] == 1
		default:
			t.Fatalf("code %#x", i.code)
		}
	}
}

func TestFilterRefusesOnlyItsDevices(t *testing.T) {
	denied := []Device{{226, 128}, {226, 0}, {235, 129}, {226, 131}}
	for _, n := range []int{0, 1, len(denied)} {
		code := program(denied[:n])
		for _, major := range []uint32{1, 226, 235} {
			for _, minor := range []uint32{0, 3, 128, 129, 131} {
				refused := false
				for _, d := range denied[:n] {
					refused = refused || d == Device{major, minor}
				}
				allowed := execute(t, code, typeChar, Device{major, minor})
				require.Equal(t, !refused, allowed, "%d:%d of %d", major, minor, n)
				require.True(t, execute(t, code, 1, Device{major, minor}), "a block device")
			}
		}
	}
}

func tree(t *testing.T, cgroup string) Tree {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "7"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "7/cgroup"), []byte(cgroup), 0o644))
	return Tree{t.TempDir(), dir}
}

// What cannot be found must not become the root group, in which a run would limit nothing.
func TestGroupOfAProcessIsReadFromProc(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n":                                 "/",
		"0::/system.slice/runner.service\n":      "/system.slice/runner.service",
		"9:name=systemd:/x\n8:pids:/y\n0::/z\n":  "/z",
		"0::/a: b\\x20c\n":                       "/a: b\\x20c",
		"8:pids:/y\n":                            "",
		"":                                       "",
		"0::/../../outside\n":                    "",
		"0::/system.slice/x.service (deleted)\n": "/system.slice/x.service (deleted)",
		"0::relative\n":                          "",
		"0::/a/../b\n":                           "",
	} {
		got, err := tree(t, text).groupOf(7)
		require.Equal(t, want, got, text)
		require.Equal(t, want == "", err != nil, text)
	}
}

func TestRunIsNamedByItsGroup(t *testing.T) {
	for path, want := range map[string]string{
		"/": "", "/system.slice/x.service": "", "/gpukit.slice": "",
		"/system.slice/x.service/gpukit-run-0123456789ab": "run-0123456789ab",
		"/gpukit-run-0123456789abc":                       "", "/gpukit-run-0123456789aB": "",
		"/gpukit-run-0123456789ab.service":                   "",
		"/gpukit.slice/gpukit-run-0123456789ac/of/the/job":   "run-0123456789ac",
		"/system.slice/my-gpukit-run-0123456789ab/x.service": "",
		"/system.slice/gpukit-run.service/x.service":         "",
	} {
		got, err := tree(t, "0::"+path+"\n").RunOf(7)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
}

func TestOnlyGroupsOfRunsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	unit := filepath.Join(dir, "gpukit-run.service")
	other, own := filepath.Join(dir, "other"), filepath.Join(dir, "gpukit-run-0123456789ab")
	for _, d := range []string{other, unit, filepath.Join(own, "a/b"), filepath.Join(dir, slice)} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	require.ErrorContains(t, Remove(other), "not the group of a run")
	require.ErrorContains(t, Remove(unit), "not the group of a run")
	require.ErrorContains(t, Remove(filepath.Join(dir, slice)), "not the group of a run")
	all, err := Tree{Mount: dir}.All()
	require.NoError(t, err)
	require.Equal(t, []string{own}, all)
	require.NoError(t, Remove(own))
	require.NoDirExists(t, own)
	require.NoError(t, Remove(own))
	require.DirExists(t, other)
}

func FuzzGroupOf(f *testing.F) {
	f.Add("0::/system.slice/x.service\n")
	f.Fuzz(func(t *testing.T, text string) {
		proc := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(proc, "7"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(proc, "7/cgroup"), []byte(text), 0o644))
		path, err := Tree{"/mount", proc}.groupOf(7)
		require.Equal(t, err == nil, path != "")
		if err == nil {
			require.True(t, filepath.IsLocal("."+path) || path == "/", path)
		}
	})
}

func TestUnmountedGroupsAreFoundAgain(t *testing.T) {
	want, failed := Find()
	var f Finder
	f.last.Store(&Tree{t.TempDir(), "/proc"}) // as after an unmount
	for range 2 {
		got, err := f.Find()
		require.Equal(t, failed, err)
		require.Equal(t, want, got)
	}
}

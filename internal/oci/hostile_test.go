package oci

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A spec decides what is done with root's rights: its hooks are run.
func TestSpecsThatOthersCouldHaveWrittenAreRefused(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, b *testbed){
		"cannot give the task a GPU: CDI spec": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Remove(b.path("amd.json")))
		},
		"its mode 0622 lets others than its owner write": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Chmod(b.path("amd.json"), 0o622))
		},
		"it is not a regular file": func(t *testing.T, b *testbed) {
			require.NoError(t, os.Remove(b.path("amd.json")))
			require.NoError(t, unix.Mkfifo(b.path("amd.json"), 0o600))
		},
		"it ends too early": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Truncate(b.path("amd.json"), 300))
		},
		"it is not JSON": func(t *testing.T,
			b *testbed) {
			b.put(t, "amd.json", "cdiVersion: 0.6.0\nkind: amd.com/gpu\n")
		},
		"bytes, more than the 1677721": func(t *testing.T,
			b *testbed) {
			require.NoError(t, os.Truncate(b.path("amd.json"), 100<<20))
		},
		"cannot find GPU": func(t *testing.T, b *testbed) { b.put(t, "amd.json", `{"cdiVersion":"0.6.0","kind":"amd.com/gpu"}`) },
		"is not a character device": func(t *testing.T, b *testbed) {
			b.put(t, "amd.json", strings.ReplaceAll(file(t, "testdata/amd.json"), "/dev/kfd", "/proc/self/mem"))
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := newTestbed(t)
			b.bundle(t, "task")
			change(t, b)
			before := b.text(t)
			require.ErrorContains(t, b.create(), want)
			require.Nil(t, b.argv)
			require.True(t, before == b.text(t), "the bundle stays as it was")
			require.NoError(t, b.call("delete", "--force", "c1"))
		})
	}
}

func TestFilesOfOtherUsersAreRefused(t *testing.T) {
	w := wrapper{machine: machine{euid: 1000}}
	require.NoError(t, w.trusted(&unix.Stat_t{Uid: 0, Mode: 0o644}))
	require.NoError(t, w.trusted(&unix.Stat_t{Uid: 1000, Mode: 0o600}))
	require.ErrorContains(t, w.trusted(&unix.Stat_t{Uid: 1001, Mode: 0o600}), "it belongs to user 1001, not to root")
	require.ErrorContains(t, w.trusted(&unix.Stat_t{Uid: 0, Mode: 0o664}), "its mode 0664 lets others")
}

// The config names the program that every call becomes as root, not create alone.
func TestConfigThatOthersCouldHaveWrittenIsRefusedByEveryCall(t *testing.T) {
	for want, change := range map[string]func(b *testbed) error{
		"its mode 0666 lets others than its owner " +
			"write": func(b *testbed) error { return os.Chmod(b.path("wrapper.json"), 0o666) },
		"its mode 0620 lets others than its owner " +
			"write": func(b *testbed) error { return os.Chmod(b.path("wrapper.json"), 0o620) },
		": its mode 0777 lets others than its owner write": func(b *testbed) error { return os.Chmod(b.dir, 0o777) },
		"it belongs to user": func(b *testbed) error {
			if b.euid != 0 {
				b.euid++ // whoever runs the tests is a stranger then
				return nil
			}
			return os.Chown(b.path("wrapper.json"), 1000, -1)
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := newTestbed(t)
			b.bundle(t, "task")
			require.NoError(t, change(b))
			for _, line := range []string{"create -b " + b.path("bundle") + " c1", "start c1", "state c1",
				"exec -p x c1", "kill --all c1 9",
				"delete --force c1", "list", "ps c1", "events c1", "--version"} {
				require.ErrorContains(t, b.call(strings.Fields(line)...), want, line)
				require.Nil(t, b.argv, line)
			}
		})
	}
}

// /tmp is such a folder, as are the folders of these tests.
func TestStickyFolderIsTrusted(t *testing.T) {
	b := newTestbed(t)
	require.NoError(t, os.Chmod(b.dir, os.ModeSticky|0o777))
	require.NoError(t, b.call("state", "c1"))
}

// A name of the outside never breaks a message into two lines: that in the log
// is one line of JSON, and a terminal may be at the other end.
func TestNamesWithNewlinesStayInTheirLine(t *testing.T) {
	const odd = "a\nb\x1b[31m"
	b := newTestbed(t)
	b.configure(t, func(c *Config) { c.Visible = []string{"AMD_VISIBLE_DEVICES"} })
	b.bundle(t, "task", env("AMD_VISIBLE_DEVICES="+odd))
	for i, args := range [][]string{
		{"create", "-b", b.path("bundle"), "c1"},
		{"create", "-b", b.path("bundle"), odd},
		{"create", "-b", odd, "c1"},
		{"create", "--" + odd, "-b", "x", "c1"},
		{"exec", "-p", b.path("bundle"), odd},
	} {
		var out strings.Builder
		log := b.path(fmt.Sprint("log", i))
		require.Equal(t, 1, b.run(append([]string{"runc", "--root", "/run/containerd/runc/concourse", "--log",
			log, "--log-format", "json"}, args...), &out, &out))
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		for _, text := range []string{out.String(), string(data)} {
			require.Equal(t, 1, strings.Count(text, "\n"), text)
			require.NotContains(t, text, "\x1b", text)
		}
	}
}

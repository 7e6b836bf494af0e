package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const process = `{"args":["true"],"big":18446744073709551615,"user":{"uid":1000,"gid":1000,"umask":18}}`

// marked is a testbed inside LXD whose container c1 is created.
func marked(t *testing.T) *testbed {
	t.Helper()
	b := newTestbed(t)
	b.refuseMknod()
	b.bundle(t, "task")
	require.NoError(t, b.create())
	b.put(t, "process", process)
	return b
}

func TestExecGetsTheGroupsInACopyOfItsProcessFile(t *testing.T) {
	for _, form := range []string{"--process FILE", "-p FILE", "--process=FILE", "-p=FILE"} {
		b := marked(t)
		args := append([]string{"--log", "/l", "exec"},
			strings.Fields(strings.ReplaceAll(form, "FILE", b.path("process")))...)
		require.NoError(t, b.call(append(args, "--detach", "c1")...))
		line := strings.Join(b.argv, " ")
		require.Regexp(t, `--log /l exec -?-p(rocess)?[ =]/proc/self/fd/\d+ --detach c1$`, line)
		copied := "/proc/self/fd/" + strings.Fields(line[strings.Index(line, "/fd/")+4:])[0]
		data, err := os.ReadFile(copied)
		require.NoError(t, err)
		require.JSONEq(t, `{"args":["true"],"big":18446744073709551615,"user":{"uid":1000,"gid":1000,"umask":18,"additionalGids":[992]}}`, string(data))
		require.Contains(t, string(data), "18446744073709551615")
		st, err := os.Stat(copied)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
		_, err = os.OpenFile(copied, os.O_WRONLY|os.O_TRUNC, 0)
		require.Error(t, err, "sealed")
		own, err := os.ReadFile(b.path("process"))
		require.NoError(t, err)
		require.Equal(t, process, string(own), "the caller's file is not touched")
	}
}

func TestMarkerIsPrivate(t *testing.T) {
	b := marked(t)
	st, err := os.Stat(b.path("state/c1"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	st, err = os.Stat(b.path("state"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
}

func TestExecOfAnUnmarkedContainerIsPassedOn(t *testing.T) {
	b := marked(t)
	for _, line := range []string{"exec -p FILE other", "exec c1 sh", "exec -p /gone other"} {
		args := strings.Fields(strings.ReplaceAll(line, "FILE", b.path("process")))
		require.NoError(t, b.call(args...))
		require.Equal(t, args, b.argv[1:])
	}
}

func TestMarkerIsRemovedWithItsContainer(t *testing.T) {
	b := marked(t)
	require.NoError(t, os.RemoveAll(b.path("bundle"))) // as containerd does
	b.bundle(t, "task")
	require.NoError(t, os.Rename(b.path("bundle"), b.path("second")))
	require.NoError(t, b.call("create", "-b", b.path("second"), "c2"))
	require.NoFileExists(t, b.path("state/c1"))
	require.FileExists(t, b.path("state/c2"))

	b.bundle(t, "check") // a new container of an old name, which gets no GPU
	require.NoError(t, b.call("create", "-b", b.path("bundle"), "c2"))
	require.NoFileExists(t, b.path("state/c2"))
}

func TestOddContainerIDsAreRefused(t *testing.T) {
	b := marked(t)
	for _, id := range []string{"../c1", "a/b", "..", ".", "a b", "c%1", strings.Repeat("x", 201), "ü"} {
		require.ErrorContains(t, b.call("create", "-b", b.path("bundle"), id), "cannot use container ID", id)
		require.ErrorContains(t, b.call("exec", "-p", b.path("process"), id), "cannot use container ID", id)
	}
}

func TestOddProcessFilesAreRefused(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, b *testbed){
		"symbolic links": func(t *testing.T, b *testbed) {
			require.NoError(t, os.Symlink(filepath.Join(b.dir, "process"), b.path("odd")))
		},
		"not a regular file": func(t *testing.T,
			b *testbed) {
			require.NoError(t, unix.Mkfifo(b.path("odd"), 0o600))
		},
		"no such file":                    func(*testing.T, *testbed) {},
		"it ends too early":               func(t *testing.T, b *testbed) { b.put(t, "odd", `{"user":`) },
		"additionalGids: it is an object": func(t *testing.T, b *testbed) { b.put(t, "odd", `{"user":{"additionalGids":{}}}`) },
	} {
		b := marked(t)
		change(t, b)
		err := b.call("exec", "-p", b.path("odd"), "c1")
		require.ErrorContains(t, err, "cannot change process file")
		require.ErrorContains(t, err, want)
		require.Nil(t, b.argv)
	}
}

func TestBrokenMarkerIsRefused(t *testing.T) {
	b := marked(t)
	b.put(t, "state/c1", "{")
	require.ErrorContains(t, b.call("exec", "-p", b.path("process"), "c1"), "cannot read marker")
}

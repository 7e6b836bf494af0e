package host_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A process may always give a file to itself, so this needs no root.
func TestWriteFileAsKeepsModeAndContent(t *testing.T) {
	r := hosttest.Root(t)
	require.NoError(t, r.WriteFileAs("/etc/key", []byte("secret"), 0o600, os.Geteuid(), os.Getegid()))
	st, err := r.Stat("/etc/key")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	text, err := r.ReadText("/etc/key")
	require.NoError(t, err)
	require.Equal(t, "secret", text)
}

// An owner that can't be given leaves the old file and no trace of the new.
func TestWriteFileAsThatFailsChangesNothing(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may give files to anybody")
	}
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/key", "old")
	require.Error(t, r.WriteFileAs("/etc/key", []byte("new"), 0o600, 0, 0))
	text, err := r.ReadText("/etc/key")
	require.NoError(t, err)
	require.Equal(t, "old", text)
	require.Equal(t, []string{"key"}, names(t, r, "/etc"))
}

// D35: the file is another user's before it has anything in it, and it has
// its name and mode last.
func TestWriteFileAsGivesTheFileAwayBeforeItHasContent_D35(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/key", "old")
	require.NoError(t, r.WriteFileAs("/etc/key", []byte("new"), 0o600, 4711, 4712))
	st, err := r.Stat("/etc/key")
	require.NoError(t, err)
	unix := st.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{4711, 4712}, []uint32{unix.Uid, unix.Gid})
	require.Equal(t, os.FileMode(0o600), st.Mode())
}

package deadmount

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// silent is a directory that never answers.
const silent = "/a server that is down"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Command {
		if os.Args[2] == silent {
			select {}
		}
		os.Exit(AnswerProbe(os.Args[2]))
	}
	os.Exit(m.Run())
}

func TestProbedDirectoryAnswersOrHasAReason(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{
		dir:           "",
		file:          "",
		dir + "/x":    "can't be read: no such file or directory",
		file + "/sub": "can't be read: not a directory",
	} {
		require.Equal(t, want, Probe(path, time.Hour), path)
	}
	require.Equal(t, "does not answer within 1ms: what serves it looks dead", Probe(silent, time.Millisecond))
}

// Only the root of a mount without a disk can hang. An unknown kind of mount may be one.
func TestMountsOfServersMayHang(t *testing.T) {
	var proc unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, "/proc", unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_MNT_ID, &proc))
	if proc.Mask&unix.STATX_MNT_ID == 0 {
		t.Skip("this kernel gives no mount numbers")
	}
	require.True(t, MayHang(proc), "its kind is not among those that are known to answer")
	below := proc
	below.Attributes &^= unix.STATX_ATTR_MOUNT_ROOT
	require.False(t, MayHang(below))
	disk := proc
	disk.Dev_major = 8
	require.False(t, MayHang(disk))
	old := proc
	old.Mask &^= unix.STATX_MNT_ID
	require.True(t, MayHang(old))
}

func TestTypeOfMountIsFoundByItsNumber(t *testing.T) {
	var st unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, "/proc", unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st))
	if st.Mask&unix.STATX_MNT_ID == 0 {
		t.Skip("this kernel gives no mount numbers")
	}
	require.Equal(t, "proc", typeOfMount(st.Mnt_id))
	require.Empty(t, typeOfMount(1<<62))
}

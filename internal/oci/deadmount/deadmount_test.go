package deadmount

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTypeOfMountIsFoundByItsNumber(t *testing.T) {
	var st unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, "/proc", unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st))
	if st.Mask&unix.STATX_MNT_ID == 0 {
		t.Skip("this kernel gives no mount numbers")
	}
	require.Equal(t, "proc", typeOfMount(st.Mnt_id))
	require.Empty(t, typeOfMount(1<<62))
}

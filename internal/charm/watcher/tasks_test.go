package watcher

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/notice"
)

const build = "0badcafe-0000-4000-8000-000000000001"

// faultyGPU returns the report on GPU 1, which hangs, with its users.
func faultyGPU(users string) string {
	return `{"gpus":[{"index":0,"pci_bus_id":"0000:23:00.0","gfx":"gfx90a","up":true,"health":{"state":"healthy"},"users":[]},
{"index":1,"pci_bus_id":"0000:43:00.0","gfx":"gfx90a","up":true,"health":{"state":"critical","faults":[{"kind":"hang","signals":["kernel_log"]}]},"users":` + users + `}]}`
}

// notified returns who was notified of which GPU. No container runs below the fixture, so no
// output is written.
func notified(t *testing.T, u *Unit) string {
	t.Helper()
	m, err := notice.Read(u.Host.Root)
	require.NoError(t, err)
	var told []string
	for _, one := range m.Notified {
		told = append(told, one.Container+" "+one.GPU)
	}
	return strings.Join(told, ", ")
}

func TestUsersOfASharedGPUAreNotified(t *testing.T) {
	for users, want := range map[string]string{
		`null`: "", `[]`: "",
		`[{"container":"` + build + `","processes":2},{"container":"","processes":1},{"container":"other","processes":9},{"container":"0123456789ab","processes":1}]`: build + " 0000:43:00.0",
		`[{"container":"` + build + `","processes":0}]`: "",
	} {
		u := served(t, "mi210x4")
		reported(t, u, faultyGPU(users))
		require.Contains(t, watched(t, u), "GPU 1 (0000:43:00.0): quarantined: hangs or is in reset (kernel_log)\n")
		require.Equal(t, want, notified(t, u), users)
		st, err := u.Host.Stat(notice.File)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, st.Mode().Perm())
	}
}

// A driver that hangs does not report users, so the previous users are notified.
func TestPreviousUsersAreNotifiedIfUsersAreUnknown(t *testing.T) {
	u := served(t, "mi210x4")
	has := `[{"container":"` + build + `","processes":2}]`
	reported(t, u, strings.Replace(strings.Replace(faultyGPU(has), "critical", "healthy", 1), `"kind":"hang"`, `"kind":"throttled"`, 1))
	watched(t, u)
	require.Empty(t, notified(t, u))
	u.after(15 * time.Second)
	reported(t, u, faultyGPU("null"))
	watched(t, u)
	require.Equal(t, build+" 0000:43:00.0", notified(t, u))
}

func TestHolderOfTheLeaseIsNotified(t *testing.T) {
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	taken(t, u, build, 4711, 0, lease.Want{Of: []int{1}, Count: 1})
	another := strings.Replace(build, "1", "2", 1)
	reported(t, u, faultyGPU(fmt.Sprintf(`[{"container":%q,"processes":1}]`, another)))
	watched(t, u)
	require.Equal(t, build+" 0000:43:00.0", notified(t, u), "whoever has it open otherwise")
}

// A failed notification does not stop the decisions on GPUs.
func TestFailedNotificationDoesNotStopTheWatch(t *testing.T) {
	u := served(t, "mi210x4")
	reported(t, u, faultyGPU(`[{"container":"`+build+`","processes":2}]`))
	require.NoError(t, u.Host.MkdirAll(notice.File, 0o755)) // a folder in its place
	var b bytes.Buffer
	require.NoError(t, look(t, u, &b))
	require.Contains(t, b.String(), "GPU 1 (0000:43:00.0): quarantined")
	require.Contains(t, b.String(), "cannot write notices to tasks: ")
	require.NotEmpty(t, quarantinedNow(t, u.Host.Root))
}

package watcher

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/tasknotice"
	"concourse-ci-machine/internal/testutil/hosttest"
)

const build = "0badcafe-0000-4000-8000-000000000001"

// sickGPU is what the exporter tells of GPU 1, which hangs, and of who has it open.
func sickGPU(users string) string {
	return `{"gpus":[{"index":0,"pci_bus_id":"0000:23:00.0","gfx":"gfx90a","up":true,"health":{"state":"healthy"},"users":[]},
{"index":1,"pci_bus_id":"0000:43:00.0","gfx":"gfx90a","up":true,"health":{"state":"critical","faults":[{"kind":"hang","signals":["kernel_log"]}]},"users":` + users + `}]}`
}

// toldNow is who was told of which GPU. No container runs below the fixture, so nobody is
// written to.
func toldNow(t *testing.T, u *Unit) string {
	t.Helper()
	m, err := tasknotice.Read(u.Host.Root)
	require.NoError(t, err)
	var told []string
	for _, one := range m.Notified {
		told = append(told, one.Container+" "+one.GPU)
	}
	return strings.Join(told, ", ")
}

func TestWhoHasASharedGPUOpenIsTold(t *testing.T) {
	for users, want := range map[string]string{
		`null`: "", `[]`: "",
		`[{"container":"` + build + `","processes":2},{"container":"","processes":1},{"container":"other","processes":9},{"container":"0123456789ab","processes":1}]`: build + " 0000:43:00.0",
		`[{"container":"` + build + `","processes":0}]`: "",
	} {
		u := served(t, "mi210x4")
		u.ExporterURL = hosttest.Answering(t, 200, sickGPU(users))
		require.Contains(t, watched(t, u), "GPU 1 (0000:43:00.0): withheld: hangs or is in reset (kernel_log)\n")
		require.Equal(t, want, toldNow(t, u), users)
		st, err := u.Host.Stat(tasknotice.File)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, st.Mode().Perm())
	}
}

// A driver that hangs does not tell who has the GPU: who had it a moment ago is told.
func TestWhoHadTheGPUIsToldWhereItsUsersAreNotKnown(t *testing.T) {
	u := served(t, "mi210x4")
	has := `[{"container":"` + build + `","processes":2}]`
	u.ExporterURL = hosttest.Answering(t, 200, strings.Replace(strings.Replace(sickGPU(has), "critical", "healthy", 1), `"kind":"hang"`, `"kind":"throttled"`, 1))
	watched(t, u)
	require.Empty(t, toldNow(t, u))
	u.after(15 * time.Second)
	u.ExporterURL = hosttest.Answering(t, 200, sickGPU("null"))
	watched(t, u)
	require.Equal(t, build+" 0000:43:00.0", toldNow(t, u))
}

func TestWhoLeasesTheGPUIsTold(t *testing.T) {
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	taken(t, u, build, 4711, 0, lease.Want{Of: []int{1}, Count: 1})
	another := strings.Replace(build, "1", "2", 1)
	u.ExporterURL = hosttest.Answering(t, 200, sickGPU(fmt.Sprintf(`[{"container":%q,"processes":1}]`, another)))
	watched(t, u)
	require.Equal(t, build+" 0000:43:00.0", toldNow(t, u), "whoever has it open otherwise")
}

// What can't be told does not keep GPUs from being decided on.
func TestWatchGoesOnWhereNobodyCanBeTold(t *testing.T) {
	u := served(t, "mi210x4")
	u.ExporterURL = hosttest.Answering(t, 200, sickGPU(`[{"container":"`+build+`","processes":2}]`))
	require.NoError(t, u.Host.MkdirAll(tasknotice.File, 0o755)) // a folder in its place
	var b bytes.Buffer
	require.NoError(t, u.Look(t.Context(), &b))
	require.Contains(t, b.String(), "GPU 1 (0000:43:00.0): withheld")
	require.Contains(t, b.String(), "cannot tell tasks of their GPUs: ")
	require.NotEmpty(t, withheldNow(t, u.Host.Root))
}

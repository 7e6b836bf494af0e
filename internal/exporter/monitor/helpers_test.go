package monitor

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const dev = exportertest.Dir

// steered is a monitor with a clock and deadlines that a test may change.
type steered struct {
	*Monitor
	now      func() time.Time
	deadline func(dir string) <-chan time.Time
}

// never is a deadline that does not pass, so that no test depends on speed.
func never(string) <-chan time.Time { return nil }

// only is a deadline of one folder; the others have none.
func only(dir string, c chan time.Time) func(string) <-chan time.Time {
	return func(of string) <-chan time.Time { return map[string]chan time.Time{dir: c}[of] }
}

func newMonitor(r host.Root, s Source, o Options) *steered {
	w := &steered{now: func() time.Time { return hosttest.Now }, deadline: never}
	o.RASInterval, o.Now = time.Minute, func() time.Time { return w.now() }
	o.Deadlines = func(dir string) <-chan time.Time { return w.deadline(dir) }
	w.Monitor = New(r, s, o)
	return w
}

// one is a source of a single GPU at dev.
func one() ([]gpu.Slot, []reading.Compute, error) {
	return []gpu.Slot{{Vendor: gpu.AMD, PCI: exportertest.PCI, Sysfs: dev}}, nil, nil
}

// gpu is the GPU of a snapshot that has one.
func (w *steered) gpu(t testing.TB) GPU {
	t.Helper()
	s := w.Snapshot()
	require.Len(t, s.GPUs, 1)
	return s.GPUs[0]
}

// errorsOf are the counted errors by GPU, file and errno.
func errorsOf(s Snapshot) map[string]float64 {
	out := map[string]float64{}
	for _, r := range s.Reports {
		out[r.GPU+" "+r.File+" "+r.Errno] = r.Count
	}
	return out
}

// ups returns whether each GPU is up.
func ups(s Snapshot) (out []bool) {
	for _, g := range s.GPUs {
		out = append(out, g.Up)
	}
	return out
}

// inBubble runs work and waits for all goroutines that it starts.
func inBubble(t *testing.T, work func()) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		work()
		synctest.Wait()
	})
}

// openFiles is how many descriptors this process has.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// settle waits until nothing goes on in the bubble.
func settle() { synctest.Wait() }

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
}

func mkfifo(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, unix.Mkfifo(file, 0o644))
}

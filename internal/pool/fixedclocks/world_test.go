package fixedclocks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const gpu = "0000:03:00.0"

// world is a machine of plain files with one GPU. The lease of its task is a name.
type world struct {
	t      testing.TB
	root   string
	holder string // who leases the GPU
	store  Store
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, root: t.TempDir()}
	w.store = Store{Dir: filepath.Join(w.root, "clocks"), Proc: filepath.Join(w.root, "proc"),
		Now: func() time.Time { return time.UnixMilli(1700000000000) }, Sleep: func(time.Duration) {}}
	w.put("proc/sys/kernel/random/boot_id", "boot-1\n")
	w.put("sys/"+levelFile, "auto\n")
	w.putClocks()
	return w
}

// putClocks writes the list of clocks. A plain file, unlike sysfs, loses it at a write.
func (w *world) putClocks() {
	w.put("sys/"+clocksFile, "OD_SCLK:\n0: 500Mhz\n1: 2100Mhz\nOD_MCLK:\n0: 900Mhz\n1: 1300Mhz\n")
}

func (w *world) put(name, text string) {
	path := filepath.Join(w.root, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) level() Level {
	data, err := os.ReadFile(filepath.Join(w.root, "sys", levelFile))
	require.NoError(w.t, err)
	word, _, _ := strings.Cut(string(data), "\n") // a file of sysfs has no more
	return Level(word)
}

func (w *world) clocks(l Level) Setting { return Setting{filepath.Join(w.root, "sys"), l} }

func task(container string) Task { return Task{container, "/bundles/" + container} }

// set creates a task that measures.
func (w *world) set(container string, l Level) error {
	w.holder = container
	return w.store.Set(gpu, w.clocks(l), task(container))
}

// look is one look of the unit. It restores the clocks after a task.
func (w *world) look() (kept bool) {
	w.t.Helper()
	holder := func() (string, error) { return w.holder, nil }
	held, over, err := w.store.Hold(gpu, w.clocks("").Sysfs, holder)
	require.NoError(w.t, err)
	if held != nil {
		require.False(w.t, over)
		require.NoError(w.t, held.Save(held.Measurement))
	}
	_, err = w.store.Restore(gpu, w.clocks("").Sysfs, holder)
	require.NoError(w.t, err)
	if !over {
		require.Equal(w.t, held == nil, w.blank())
	}
	return held != nil
}

// create creates a task that leases the GPU and does not measure.
func (w *world) create(container string) {
	w.t.Helper()
	w.holder = container
	_, err := w.store.Restore(gpu, w.clocks("").Sysfs, func() (string, error) { return "", nil })
	require.NoError(w.t, err)
}

// blank reports whether the GPU's file is empty.
func (w *world) blank() bool {
	data, err := os.ReadFile(filepath.Join(w.store.Dir, gpu))
	if os.IsNotExist(err) {
		return true
	}
	require.NoError(w.t, err)
	return strings.TrimSpace(string(data)) == ""
}

// crash is kill -9.
type crash struct{}

// dies calls do and kills it before the change with this number. It returns false if do
// ended before.
func (w *world) dies(at int, do func()) (killed bool) {
	w.store.step = func(string) {
		if at--; at < 0 {
			panic(crash{})
		}
	}
	defer func() {
		w.store.step = nil
		if r := recover(); r != nil {
			if _, is := r.(crash); !is {
				panic(r)
			}
			killed = true
		}
	}()
	do()
	return false
}

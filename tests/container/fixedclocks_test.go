//go:build e2e

package container

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// newMeasured is a worker with tasks that may have the clocks of their GPUs fixed. The
// files of sysfs are plain ones.
func newMeasured(t *testing.T) *promised {
	t.Helper()
	w := newPromised(t)
	for _, name := range gpusOfWorker {
		hosttest.Put(t, w.c.Host.Root, levelOf(name), "auto\n")
	}
	w.c.Host.Clock = host.New("").Clock // the wrapper's
	w.c.Host.Runner = hosttest.NewRunner(t).Answer("systemd-run", "")
	beds := os.Getenv(insideEnv) // folder of bundles
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, beds)), 0o755))
	require.NoError(t, os.Symlink(beds, filepath.Join(w.root, beds)))
	return w
}

func levelOf(name string) string {
	return filepath.Join(fixedclocks.Devices, name, "power_dpm_force_performance_level")
}

// measures makes a container of a task that measures on both GPUs.
func (w *promised) measures(s setting) *bed {
	w.t.Helper()
	b := w.container(s, "GPU_FIXED_CLOCKS=1", "GPU_COUNT=2")
	w.serveFixedClocks(b)
	b.bundle()
	return b
}

// serveFixedClocks serves a unit with gpu-fixed-clocks=true.
func (w *promised) serveFixedClocks(b *bed) {
	w.serves(b)
	c := b.unit
	c.Leases.Clocks = w.c.Host.Path(fixedclocks.DefaultDir)
	for i, g := range c.GPUs {
		c.GPUs[i].Clocks = &fixedclocks.Setting{Sysfs: w.c.Host.Path(fixedclocks.Devices + "/" + g.Name), Level: fixedclocks.Standard}
	}
	b.configure(c)
}

// replaceRunc puts a program in the place of the real runc, which deletes the container at
// the end.
func (w *promised) replaceRunc(b *bed, path string) {
	debian := b.real
	b.use(path)
	w.t.Cleanup(func() { b.use(debian) })
}

func (w *promised) levels() (all string) {
	w.t.Helper()
	for _, name := range gpusOfWorker {
		text, err := w.c.Host.ReadText(levelOf(name))
		require.NoError(w.t, err)
		word, _, _ := strings.Cut(text, "\n") // a file of sysfs has no more
		all += word + " "
	}
	return all
}

const (
	fixed = "profile_standard profile_standard "
	own   = "auto auto "
)

// sees is what each look has others do.
func (w *promised) sees() {
	w.t.Helper()
	for _, name := range gpusOfWorker {
		require.NoError(w.t, w.c.RestoreClocks(io.Discard, name, false))
		require.NoError(w.t, w.c.WatchFixedClocks(w.t.Context(), name, 1))
	}
}

// staysFixed looks, as each few seconds, while the task has its GPUs.
func (w *promised) staysFixed() {
	w.t.Helper()
	require.Equal(w.t, fixed, w.levels())
	w.sees()
	require.Equal(w.t, fixed, w.levels(), "its task goes on")
}

// givesBack looks until both GPUs have their own clocks: the kernel ends a killed process
// in its own time.
func (w *promised) givesBack() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { w.sees(); return w.levels() == own }, 20*time.Second, 5*time.Millisecond)
}

func TestTaskThatMeasuresReadsItsRecord(t *testing.T) {
	onEachCgroup(t, func(t *testing.T, _ string) {
		for _, s := range settings {
			t.Run(s.name, func(t *testing.T) {
				if s.lxd {
					t.Skip("a nested machine has no cgroups of its own here: its tasks lease nothing")
				}
				w := newMeasured(t)
				b := w.measures(s)
				group := 0 // containerd lets no one but the container's root through a bundle
				if len(s.maps) > 0 {
					group = int(s.maps[0].HostID)
				}
				require.NoError(t, os.Chown(b.path("bundle"), 0, group))
				require.NoError(t, os.Chmod(b.path("bundle"), 0o710))
				require.NoError(t, b.up())
				w.staysFixed()
				w.fifo(b.id)
				require.NoError(t, b.run(`( : >"$GPU_FIXED_CLOCKS_RECORD" ) 2>/dev/null && echo written > /events/all
cat "$GPU_FIXED_CLOCKS_RECORD" > /events/all; read word < /events/$TASK; cat "$GPU_FIXED_CLOCKS_RECORD" > /events/all; read word < /events/$TASK`))
				record := func() (v struct {
					Valid         bool
					Reason, Level string
					Looks         int
				}) {
					line := strings.Join(w.event(), " ")
					require.NoError(t, json.Unmarshal([]byte(line), &v), line)
					return v
				}
				first := record()
				require.True(t, first.Valid, first.Reason)
				require.Equal(t, "profile_standard 1", fmt.Sprint(first.Level, " ", first.Looks))

				for _, name := range gpusOfWorker[1:] { // the driver reports that a limit is met
					table := filepath.Join(fixedclocks.Devices, name, "gpu_metrics")
					data, err := w.c.Host.ReadFile(table)
					require.NoError(t, err)
					data[112] |= 1
					hosttest.Put(t, w.c.Host.Root, table, string(data))
				}
				w.staysFixed()
				goOn, err := os.OpenFile(filepath.Join(w.dir, "events", b.id), os.O_RDWR, 0)
				require.NoError(t, err)
				defer goOn.Close()
				_, err = goOn.WriteString("\n")
				require.NoError(t, err)
				second := record()
				require.False(t, second.Valid)
				require.Equal(t, "it was throttled: ppt0", second.Reason)
				_, err = goOn.WriteString("\n")
				require.NoError(t, err)
				w.givesBack()
			})
		}
	})
}

// Whatever is killed, wherever it is: until then the clocks are fixed, and after it they
// are the GPU's own.
func TestClocksAreGivenBackAfterAnyKill(t *testing.T) {
	running := func(w *promised, s setting) *bed {
		b := w.measures(s)
		require.NoError(w.t, b.up())
		w.fifo(b.id)
		require.NoError(w.t, b.run(task))
		require.Len(w.t, w.event(), 4)
		w.staysFixed()
		return b
	}
	for name, kill := range map[string]func(w *promised, s setting){
		"runc before it did anything": func(w *promised, s setting) {
			b := w.measures(s)
			path, _ := w.script(b, "runc", "exec "+b.real+` "$@"`)
			w.replaceRunc(b, path)
			c := b.begin(b.createWords()...)
			w.reached()
			w.staysFixed()
			b.stop(c)
		},
		"runc while it creates": func(w *promised, s setting) {
			b := w.measures(s)
			path, goOn := w.script(b, "hook", "")
			b.hook = path
			b.bundle()
			c := b.begin(b.createWords()...)
			w.reached()
			w.staysFixed()
			b.stop(c)
			_, err := goOn.WriteString("\n")
			require.NoError(w.t, err)
			b.dropCgroups()
		},
		"init before the start": func(w *promised, s setting) {
			b := w.measures(s)
			require.NoError(w.t, b.begin(b.createWords()...).Wait())
			w.staysFixed()
			b.kill9("init.pid")
		},
		"container before its task came": func(w *promised, s setting) {
			b := w.measures(s)
			require.NoError(w.t, b.up())
			w.staysFixed()
			b.delete()
		},
		"task":                     func(w *promised, s setting) { running(w, s).kill9("exec.pid") },
		"init below the task":      func(w *promised, s setting) { running(w, s).kill9("init.pid") },
		"container below the task": func(w *promised, s setting) { running(w, s).delete() },
	} {
		for _, s := range settings[:2] {
			t.Run(name+", "+s.name, func(t *testing.T) {
				w := newMeasured(t)
				kill(w, s)
				w.givesBack()
				w.sees()
				require.Equal(t, own, w.levels())
			})
		}
	}
}

// The next task comes before any look: it finds the GPUs' own clocks.
func TestNextTaskComesToClocksOfTheGPUsOwn(t *testing.T) {
	w := newMeasured(t)
	b := w.measures(settings[1])
	require.NoError(t, b.up())
	require.Equal(t, fixed, w.levels())
	b.delete()
	next := w.container(settings[1], "GPU_COUNT=2")
	w.serveFixedClocks(next)
	next.bundle()
	require.NoError(t, next.up())
	require.Equal(t, own, w.levels())
}

// A limit of file sizes ends the wrapper at each of its writes: the leases' records, the
// clocks' and the task's, the marker, config.json.
func TestWrapperThatDiesAtAWriteGivesClocksBack(t *testing.T) {
	w := newMeasured(t)
	ends, fixed := 0, 0
	for _, limit := range []int{0, 100, 2047, 2048, 4095, 4096, 4097, 1 << 13, 1 << 20} {
		b := w.measures(settings[1])
		b.env = append(b.env, fmt.Sprintf("LONG=%05000d", 0)) // config.json is the longest of them
		w.replaceRunc(b, w.nothing())
		b.bundle()
		c := exec.Command("prlimit", append([]string{"--fsize=" + strconv.Itoa(limit), b.wrapper(), "--root", b.path("root/concourse")}, b.createWords()...)...)
		c.Env = append(os.Environ(), oci.EnvConfig+"="+b.path("wrapper.json"))
		if err := c.Run(); err != nil {
			ends++
		}
		if w.levels() != own {
			fixed++
		}
		w.givesBack()
	}
	require.Greater(t, ends, 3)
	require.Less(t, ends, 9)
	require.NotZero(t, fixed, "one died with the clocks fixed")
}

// Wherever in its milliseconds.
func TestWrapperKilledAtAnyMomentGivesClocksBack(t *testing.T) {
	w := newMeasured(t)
	b := w.measures(settings[1])
	path, _ := w.script(b, "runc", "")
	w.replaceRunc(b, path)
	fixed := 0
	for range 60 {
		b.write("bundle/config.json", b.config())
		c := b.begin(b.createWords()...)
		for range rand.IntN(5000) { // some of the time that it takes
			_, err := os.Stat(b.dir)
			require.NoError(t, err)
		}
		b.stop(c)
		if w.levels() != own {
			fixed++
		}
		w.givesBack()
	}
	require.NotZero(t, fixed)
}

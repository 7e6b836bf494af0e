//go:build e2e

package container

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/watcher"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// gpusOfWorker are the GPUs that each worker hands out, by their names in the fixture.
var gpusOfWorker = []string{"0000:23:00.0", "0000:43:00.0"}

const (
	beat      = 15 * time.Second // between two looks at the GPUs
	buildTime = 3                // beats
)

// promised is a worker of two GPUs: its containers are made by the real wrapper and the
// real runc, its GPUs watched as Pebble has them watched, from files made sick.
type promised struct {
	*unit
	c     *watcher.Unit
	root  string
	exits map[string]int // of containers
	busy  []*promisedBuild
}

type promisedBuild struct {
	bed   *bed
	up    chan error
	gpu   string // its name; "" while its create waits
	begun int    // beat
	met   bool
}

func newPromised(t *testing.T) *promised {
	t.Helper()
	w := &promised{unit: newUnit(t, len(gpusOfWorker)), exits: map[string]int{}}
	h := hosttest.Quiet(t, hosttest.Host(t, "mi210x4"))
	w.root = h.Path("/")
	showDrivers(t, w.root)
	for _, dir := range []string{"proc", "sys/fs/cgroup"} { // leases are judged by real processes
		require.NoError(t, os.RemoveAll(filepath.Join(w.root, dir)))
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(w.root, dir)), 0o755))
		require.NoError(t, os.Symlink("/"+dir, filepath.Join(w.root, dir)))
	}
	require.NoError(t, h.MkdirAll("/run/concourse-ci-machine", 0o755))
	hosttest.Put(t, h.Root, "/sys/bus/pci/devices/0000:c3:00.0/ras/umc_err_count", "ue: 0\nce: 0\n") // the fixture's is sick
	hosttest.Put(t, h.Root, "/sys/bus/pci/devices/0000:c3:00.0/ras/gpu_vram_bad_pages", "")
	worker := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"value":"%d"}`, w.exits[strings.Split(r.URL.Path, "/")[2]])
	}))
	t.Cleanup(worker.Close)
	w.c = &watcher.Unit{Host: h, WorkerURL: worker.URL}
	b := w.container(settings[1])
	w.serves(b)
	return w
}

// showDrivers lays the fixture's list of drivers over the kernel's, which has no kfd, in the
// mount namespace of these tests. A whole proc stays visible beside it: without one, a
// container in a user namespace may not mount its own.
func showDrivers(t *testing.T, root string) {
	t.Helper()
	dir := t.TempDir()
	list, whole := filepath.Join(dir, "devices"), filepath.Join(dir, "proc")
	require.NoError(t, os.Mkdir(whole, 0o755))
	require.NoError(t, os.Rename(filepath.Join(root, "proc/devices"), list))
	require.NoError(t, unix.Mount("proc", whole, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	require.NoError(t, unix.Mount(list, "/proc/devices", "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount("/proc/devices", unix.MNT_DETACH))
		require.NoError(t, unix.Unmount(whole, unix.MNT_DETACH))
	})
}

// serves makes a bed a container of this worker.
func (w *promised) serves(b *bed) {
	config := b.unit
	for i := range config.GPUs {
		config.GPUs[i].Name = gpusOfWorker[i]
	}
	config.Quarantine = filepath.Join(w.root, quarantine.AdmissionFile)
	config.Leases.Dir = filepath.Join(w.root, "run/concourse-ci-machine/gpu-leases")
	b.configure(config)
	own, leases := b.unit, *config.Leases // what the charm wrote has no prefix
	leases.Dir = lease.DefaultDir
	own.Leases = &leases
	data, err := json.Marshal(own)
	require.NoError(w.t, err)
	hosttest.Put(w.t, w.c.Host.Root, oci.DefaultConfig, string(data))
}

// looks goes on by a beat, and looks.
func (w *promised) looks() {
	w.t.Helper()
	w.c.Host.Clock = hosttest.Clock{T: w.c.Host.Now().Add(beat)}
	r := w.c.Host.Root
	m := monitor.New(r, monitor.All(r), monitor.Options{Now: w.c.Host.Now})
	require.NoError(w.t, m.WriteReport(role.GPUReport))
	var said bytes.Buffer
	require.NoError(w.t, w.c.Look(w.t.Context(), &said), said.String())
}

func (w *promised) record() quarantine.Record {
	w.t.Helper()
	r, err := quarantine.RecordFile.Read(w.c.Host.Root)
	require.NoError(w.t, err)
	return r
}

// errors writes what the driver counted of the second GPU.
func (w *promised) errors(n int) {
	hosttest.Put(w.t, w.c.Host.Root, "/sys/bus/pci/devices/"+gpusOfWorker[1]+"/ras/umc_err_count", fmt.Sprintf("ue: %d\nce: 0\n", n))
}

// begin makes the build's container and starts its task. If no GPU is left for it the
// create waits, and comes to its end when one is.
func (w *promised) begin(p *promisedBuild, at int) {
	w.t.Helper()
	p.bed = w.container(settings[1])
	w.serves(p.bed)
	p.bed.bundle()
	p.begun = at
	w.busy = append(w.busy, p)
	p.up = make(chan error, 1)
	go func() { p.up <- p.bed.up() }()
	if w.free() >= 0 {
		w.runs(p, at)
	}
}

// free is how many GPUs are left when all that are here have one, those that wait too; less
// than 0 if one of these goes on waiting.
func (w *promised) free() (n int) {
	r := w.record()
	for _, name := range gpusOfWorker {
		if r.Find(name).State == quarantine.InService {
			n++
		}
	}
	for _, p := range w.busy {
		if p.gpu == "" || r.Find(p.gpu).State == quarantine.InService {
			n--
		}
	}
	return n
}

// runs waits for the create, and starts the task.
func (w *promised) runs(p *promisedBuild, at int) {
	w.t.Helper()
	require.NoError(w.t, <-p.up, "a build fails that met no fault")
	w.fifo(p.bed.id)
	require.NoError(w.t, p.bed.run(task))
	said := w.event()
	require.Len(w.t, said, 3, "one GPU: %v", said)
	p.gpu, p.begun = gpusOfWorker[said[2][2]-'8'], at // 128 or 129
}

// end lets the task end, and the lease with it.
func (w *promised) end(p *promisedBuild, exit int) {
	w.t.Helper()
	w.exits[p.bed.id] = exit
	f, err := os.OpenFile(filepath.Join(w.dir, "events", p.bed.id), os.O_RDWR, 0)
	require.NoError(w.t, err)
	defer f.Close() // a line in a pipe that no one has open is lost
	_, err = f.WriteString("\n")
	require.NoError(w.t, err)
	require.Equal(w.t, []string{"-", p.bed.id}, w.event())
	l := lease.Leases{Dir: filepath.Join(w.root, "run/concourse-ci-machine/gpu-leases"), GPUs: gpusOfWorker}
	require.Eventually(w.t, func() bool {
		states, _, err := l.Read()
		require.NoError(w.t, err)
		for _, s := range states {
			if s.Held && s.Container == p.bed.id {
				return false
			}
		}
		return true
	}, 20*time.Second, 5*time.Millisecond, "its lease ends with it")
}

// The promise of docs/explanation/gpu-health.md, with real runc, the real wrapper, real
// leases and looks, and a web that does what Concourse does: two workers of two GPUs each,
// 40 builds of one GPU each, and one GPU that falls sick under one of them, for too short a
// time for the tags to follow.
func TestSickGPUFailsNoSecondBuild(t *testing.T) {
	workers := []*promised{newPromised(t), newPromised(t)}
	sick := workers[0]
	const builds, sickAt, wellAt = 40, 4, 14
	var queue []*promisedBuild
	for range builds {
		queue = append(queue, &promisedBuild{})
	}
	failed, waited, onSick, afterwards, back := 0, 0, 0, 0, 0
	for at := 0; len(queue) > 0 || len(workers[0].busy)+len(workers[1].busy) > 0 || back == 0; at++ {
		require.Less(t, at, 200, "it comes to no end: %d are queued", len(queue))
		for _, w := range workers {
			w.looks()
		}
		r := sick.record()
		if at > wellAt && r.Find(gpusOfWorker[1]).State == quarantine.InService && back == 0 {
			back = at
		}
		for _, w := range workers {
			var still []*promisedBuild
			for _, p := range w.busy {
				p.met = p.met || w == sick && p.gpu == gpusOfWorker[1] && at > sickAt && at <= wellAt
				switch {
				case p.gpu == "" || at-p.begun < buildTime:
					still = append(still, p)
					continue
				case p.met:
					failed++
					w.end(p, 134)
				default:
					w.end(p, 0)
				}
			}
			w.busy = still
		}
		for _, w := range workers { // what waited has got the GPU that became free
			for _, p := range w.busy {
				if p.gpu == "" && w.free() >= 0 {
					w.runs(p, at)
					waited++
				}
			}
		}
		var waits []*promisedBuild
		for _, p := range queue {
			// limit-active-tasks: the worker with the fewest, up to the one number for all.
			w := workers[0]
			if len(workers[1].busy) < len(w.busy) {
				w = workers[1]
			}
			if len(w.busy) >= len(gpusOfWorker) {
				waits = append(waits, p)
				continue
			}
			w.begin(p, at)
		}
		for _, p := range sick.busy {
			if p.gpu == gpusOfWorker[1] && p.begun == at {
				if at > sickAt && at < wellAt {
					onSick++
				}
				if at > wellAt {
					afterwards++
				}
			}
		}
		queue = waits
		switch at { // between two looks
		case sickAt:
			sick.errors(1)
		case wellAt:
			sick.errors(0)
		}
	}
	t.Logf("of %d builds %d failed; %d creates waited; back %s after it was well", builds, failed, waited, time.Duration(back-wellAt)*beat)
	require.Equal(t, 1, failed, "the build that was on it, and no other")
	require.Zero(t, onSick, "no build began on it after the first look")
	require.Positive(t, waited, "the web did send tasks that found too few GPUs")
	require.Positive(t, afterwards, "back without a person, and in use")
	var told bytes.Buffer
	require.NoError(t, sick.c.Evidence(&told, term.Format{}))
	require.Contains(t, told.String(), "verdict: infrastructure: a task cannot cause 1 uncorrectable error\n  GPU 1 (0000:43:00.0): 1 uncorrectable error\n")
	require.Equal(t, 1, strings.Count(told.String(), "verdict:"))
}

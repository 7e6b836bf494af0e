//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/tests/fusefs"
)

// playedGPU is a GPU with files that the test writes, and that can hang.
type playedGPU struct {
	*fusefs.Mirror
	u               *unit
	pci, port, node string
}

// playedGPUs puts the GPUs of a unit on file systems of their own.
func playedGPUs(u *unit) (all []*playedGPU) {
	for _, g := range []playedGPU{
		{pci: hangingGPU, port: "0000:20:01.1", node: hangingNode},
		{pci: sickGPU, port: "0000:40:01.1", node: sickNode},
	} {
		g.u = u
		g.Mirror = mirrorGPU(u, g.pci)
		all = append(all, &g)
	}
	return all
}

// rests shows the GPU as it is without work.
func (g *playedGPU) rests() { g.set("busy=0 power=40 vram=10") }

// set writes values: busy (percent), power (W), vram (MiB), and ue (errors).
func (g *playedGPU) set(text string) {
	g.u.t.Helper()
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(value)
		require.NoError(g.u.t, err, text)
		switch name {
		case "busy":
			g.write("gpu_busy_percent", fmt.Sprintf("%d\n", n))
		case "power":
			g.write("hwmon/hwmon*/power1_average", fmt.Sprintf("%d\n", n*1_000_000))
		case "vram":
			g.write("mem_info_vram_used", fmt.Sprintf("%d\n", n<<20))
		case "ue":
			g.write("ras/umc_err_count", fmt.Sprintf("ue: %d\nce: 0\n", n))
		default:
			g.u.t.Fatalf("unknown value %q", name)
		}
	}
}

func (g *playedGPU) write(pattern, text string) {
	g.u.t.Helper()
	found, err := filepath.Glob(filepath.Join(g.Folder(), pattern))
	require.NoError(g.u.t, err)
	require.Len(g.u.t, found, 1, pattern)
	require.NoError(g.u.t, os.WriteFile(found[0], []byte(text), 0o644))
}

// kernelLog is a file of records of the kernel's log, which has no other reader on a machine of
// the tests than the recorder of tasks.
const kernelLog = "/dev/kmsg"

// logs adds a line to the kernel's log. Each record fills what the recorder reads at once.
func (g *playedGPU) logs(text string) {
	g.u.t.Helper()
	var now unix.Timespec
	require.NoError(g.u.t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	text = strings.NewReplacer("{gpu}", g.pci, "{port}", g.port).Replace(text)
	record := fmt.Sprintf("4,1,%d,-;%s\n", now.Nano()/1000, text)
	file, err := os.OpenFile(g.u.Root.Path(kernelLog), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(g.u.t, err)
	defer file.Close()
	_, err = fmt.Fprintf(file, "%-*s", 8<<10, record)
	require.NoError(g.u.t, err)
}

// gpuFailure is a failure of a task with a GPU, with what happens to the GPU while it runs:
//
//	gpu busy=100 power=280   its values
//	log amdgpu {gpu}: ...    a line of the kernel
//	hang                     its files hang
//	wait 20s
type gpuFailure struct {
	failure
	steps []string
}

func plainOf(lists ...[]gpuFailure) (all []failure) {
	for _, list := range lists {
		for _, one := range list {
			all = append(all, one.failure)
		}
	}
	return all
}

const (
	begins   = "ls /dev/dri | grep renderD >/srv/out_rw/NAME.new; mv /srv/out_rw/NAME.new /srv/out_rw/NAME; "
	untilEnd = begins + "while [ ! -e /srv/out_rw/end-NAME ]; do sleep 1; done; "
	works    = begins + "while :; do seq 20000 >/dev/null; sleep .2; done"
)

// byGPU and byUnknown are right where a GPU is the cause, and where it may be.
var (
	byGPU     = []verdict.Kind{verdict.GPU}
	byUnknown = []verdict.Kind{verdict.GPU, verdict.Unknown}
)

// longGPUFailures last for half a minute and more.
func longGPUFailures() []gpuFailure {
	return []gpuFailure{
		{failure{name: "spins", right: byUnknown, timeout: "130s", script: begins + "sleep 1000"},
			[]string{"gpu busy=100 power=280", "wait 40s", "gpu power=80"}},
		{failure{name: "reset-long-before", right: byUnknown, script: untilEnd + "exit 1"},
			[]string{"wait 15s", "log amdgpu {gpu}: amdgpu: GPU reset begin!", "wait 125s"}},
		{failure{name: "timeout-idle", right: justTask, timeout: "30s", script: begins + "sleep 1000"}, nil},
		{failure{name: "timeout-at-work", right: openAtWork, timeout: "30s", script: works},
			[]string{"gpu busy=100 power=280"}},
	}
}

// shortGPUFailures follow each other on the other GPU.
func shortGPUFailures() []gpuFailure {
	return []gpuFailure{
		{failure{name: "ring-timeout", right: byGPU, script: untilEnd + "exit 134"}, []string{"gpu busy=95 power=280",
			"log amdgpu {gpu}: amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19",
			"log amdgpu {gpu}: amdgpu: GPU reset begin!"}},
		{failure{name: "after-another-reset", right: justTask, script: untilEnd + "exit 1"}, []string{"wait 3s"}},
		{failure{name: "mes-silent", right: byGPU, script: untilEnd + "exit 1"}, []string{"gpu busy=95 power=280",
			"log amdgpu {gpu}: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
			"log amdgpu {gpu}: amdgpu: MES might be in unrecoverable state, issue a GPU reset"}},
		{failure{name: "own-page-fault", right: openTask, script: untilEnd + "exit 134"}, []string{"gpu busy=95",
			"log amdgpu {gpu}: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32773)"}},
		{failure{name: "ras-line", right: byGPU, script: untilEnd + "exit 135"},
			[]string{"log amdgpu {gpu}: amdgpu: 1 uncorrectable hardware errors detected in umc block"}},
		{failure{name: "card-lost", right: byGPU, script: untilEnd + "exit 139"},
			[]string{"log pcieport {port}: pciehp: Slot(0): Link Down",
				"log pcieport {port}: pciehp: Slot(0): Card not present"}},
		{failure{name: "assertion", right: justTask, script: untilEnd + "exit 1"},
			[]string{"gpu busy=95 power=280", "wait 5s"}},
		{failure{name: "files-hang", right: byGPU, script: untilEnd + "exit 134"}, []string{"hang", "wait 15s"}},
	}
}

// lastGPUFailures concern other tasks too: all of the machine, or those that had the GPU within
// half a minute, because quarantine reads its counters each twelve seconds.
func lastGPUFailures() []gpuFailure {
	byMachine := []verdict.Kind{verdict.Machine}
	return []gpuFailure{
		{failure{name: "machine-check", right: byMachine, script: untilEnd + "exit 135"},
			[]string{"log mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: bea0000000000108"}},
		{failure{name: "errors-at-the-end", right: byGPU, script: untilEnd + "exit 1"},
			[]string{"wait 45s", "gpu ue=2"}}, // so long after another task
	}
}

// memoryFailures are on GPUs with 48 of 64 GiB in use by others. Memory that an ended task left is
// missing: without a lease, its client of the driver shows that it had the GPU.
func memoryFailures() []gpuFailure {
	return []gpuFailure{
		{failure{name: "fills-the-rest", right: []verdict.Kind{verdict.Machine}, script: untilEnd + "exit 1"},
			[]string{"wait 10s", "gpu vram=65500", "wait 3s"}},
		{failure{name: "enough-is-free", right: openTask, script: untilEnd + "exit 1"},
			[]string{"wait 10s", "gpu vram=52000", "wait 3s"}},
	}
}

// lane plays failures one after the other.
type lane struct {
	f        *failures
	u        *unit
	pipeline string
	after    string       // pipeline whose builds must have ended before
	left     []gpuFailure // the first one runs
	gpu      *playedGPU   // of the task, once it has begun
	begun    bool
	step     int
	since    time.Time // of the step
	asked    time.Time // whether the build runs
}

// lane returns a lane of failures on the GPUs of a unit.
func (f *failures) lane(pipeline string, u *unit, all []gpuFailure) *lane {
	return &lane{f: f, u: u, pipeline: pipeline, left: slices.Clone(all)}
}

// plays plays lanes side by side.
func (f *failures) plays(all ...*lane) {
	f.t.Helper()
	within(f.t, 10*time.Minute, func() bool {
		ended := true
		for _, l := range all {
			ended = l.advance() && ended
		}
		f.meddle()
		return ended
	}, "the failures with GPUs do not end")
}

// advance does what is due, and reports whether all have ended.
func (l *lane) advance() bool {
	if len(l.left) == 0 {
		return true
	}
	one := l.left[0]
	job := l.pipeline + "-" + one.name
	switch {
	case time.Since(l.asked) < 2*time.Second && (!l.begun || l.step == len(one.steps)):
	case !l.begun:
		if l.asked = time.Now(); l.after != "" && l.f.running(l.after, "") {
			return false
		}
		l.f.triggers(l.pipeline, []failure{one.failure})
		l.begun = true
	case l.gpu == nil:
		if at := "/srv/out_rw/" + job; l.u.Root.Exists(at) {
			node, _, _ := strings.Cut(read(l.u, at), "\n")
			i := slices.IndexFunc(l.f.played[l.u], func(g *playedGPU) bool { return g.node == node })
			require.GreaterOrEqual(l.u.t, i, 0, node)
			l.gpu, l.since = l.f.played[l.u][i], time.Now()
		}
	case l.step < len(one.steps):
		if l.does(one.steps[l.step]) {
			l.step, l.since = l.step+1, time.Now()
			if l.step == len(one.steps) {
				require.NoError(l.u.t, l.u.Root.WriteFile("/srv/out_rw/end-"+job, nil, 0o644))
			}
		}
	default:
		if l.asked = time.Now(); !l.f.running(l.pipeline, job) {
			l.settles()
			*l = lane{f: l.f, u: l.u, pipeline: l.pipeline, left: l.left[1:]}
		}
	}
	return len(l.left) == 0
}

// does reports whether a step has been done.
func (l *lane) does(text string) bool {
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "gpu":
		l.gpu.set(rest)
	case "log":
		l.gpu.logs(rest)
	case "hang":
		l.gpu.Hang(true)
	case "wait":
		d, err := time.ParseDuration(rest)
		require.NoError(l.u.t, err)
		return time.Since(l.since) >= d
	default:
		l.u.t.Fatalf("unknown step %q", text)
	}
	return true
}

// settles gives the GPU its values before the next failure.
func (l *lane) settles() {
	l.gpu.Hang(false)
	if l.u == l.f.taken {
		l.gpu.set("vram=49152")
		return
	}
	l.gpu.rests()
}

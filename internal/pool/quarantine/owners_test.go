package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

const gibi = 1 << 30

// server is a program of the machine with much memory, and build a task's process.
var (
	server = usage.Process{PID: 4242, Name: "llama-server", Memory: 57.7 * gibi}
	build  = usage.Process{PID: 99, Name: "python3", Container: "0badcafe-0000-4000-8000-000000000001", Memory: 5 * gibi}
)

// memoryLook holds what a look sees of GPU 0: memory in use in GiB, its processes, and whether a
// task has it.
type memoryLook struct {
	used      float64
	processes []usage.Process
	task      bool
}

// lookAt returns GPU 0 after recordAt.
func lookAt(scanAge time.Duration, all ...memoryLook) *GPU {
	r := recordAt(scanAge, all...)
	return r.Find(names[0])
}

// recordAt decides on one look after the other, 15 s apart. Scans are scanAge older than looks.
func recordAt(scanAge time.Duration, all ...memoryLook) (r Record) {
	total := 64. * gibi
	for i, one := range all {
		s, _ := sign(0, '.')
		other, _ := sign(1, '.')
		used := one.used * gibi
		l := Look{At: start.Add(time.Duration(i) * 15 * time.Second), Policy: Auto}
		s.Memory, s.Total, s.Processes, s.UsersAt = &used, &total, one.processes, l.At.Add(-scanAge)
		l.GPUs = []Reading{s, other}
		if one.task {
			l.Tasks = []Task{{Container: build.Container, GPUs: names[:1]}}
		}
		r = Decide(r, l)
	}
	return r
}

func repeat(n int, one memoryLook) (all []memoryLook) {
	for range n {
		all = append(all, one)
	}
	return all
}

// A program that starts during a task has its memory after the task too. The GPU has no fault.
func TestMemoryOfProcessesIsNoLeak(t *testing.T) {
	both := []usage.Process{server, build}
	begin := []memoryLook{{.2, nil, false}, {5.2, both[1:], true}}
	for name, c := range map[string]struct {
		looks []memoryLook
		state State
		ended float64
	}{
		"a program of the machine": {
			append([]memoryLook{{63, both, true}}, repeat(8, memoryLook{58, both[:1], false})...), InService, 0},
		"a program that is not seen yet": {
			append([]memoryLook{{63, both[1:], true}, {58, nil, false}}, repeat(8, memoryLook{58, both[:1], false})...), InService, 0},
		"a task that ended": {repeat(8, memoryLook{5.2, nil, false}), Quarantined, 5},
		"a task that ended beside a program": {
			append([]memoryLook{{63, both, true}}, repeat(8, memoryLook{63, both[:1], false})...), Quarantined, 5.1},
		"a process of the task that has not ended": {repeat(8, memoryLook{5.2, both[1:], false}), InService, 0},
	} {
		g := lookAt(0, append(begin, c.looks...)...)
		require.Equal(t, c.state, g.State, name)
		require.InDelta(t, c.ended, g.Memory.Ended/gibi, .01, name)
	}
}

// Right after a task's end the last scan still has the task's processes.
func TestLeakIsSeenBehindAnOldScan(t *testing.T) {
	left := []usage.Process{build}
	all := []memoryLook{{.2, nil, false}, {5.2, left, true}, {5.2, left, false}}
	g := lookAt(20*time.Second, append(all, repeat(8, memoryLook{5.2, nil, false})...)...)
	require.Equal(t, Quarantined, g.State)
	require.InDelta(t, .2, *g.Idle/gibi, .01)
}

func TestOwnersOfMemoryAreNamed(t *testing.T) {
	xorg := usage.Process{PID: 812, Name: "Xorg", Screen: true, Memory: 2 * gibi}
	docker := usage.Process{PID: 7, Name: "vllm", Container: "4c01db0b339c", Memory: 30 * gibi}
	for want, c := range map[string]memoryLook{
		"58 of 64 GiB are used by llama-server, pid 4242, of this machine": {58, []usage.Process{server}, false},
		"62 of 64 GiB are used: 58 GiB by llama-server, pid 4242, of this machine; 2 GiB by Xorg, pid 812, of the desktop; " +
			"2 GiB by other processes of this machine": {62, []usage.Process{server, xorg, {Name: "other processes", Memory: 2 * gibi}}, false},
		"30 of 64 GiB are used by vllm, pid 7, in container 4c01db0b339c": {30, []usage.Process{docker}, false},
		"46 of 64 GiB are used by process 4711 of the host": {
			46, []usage.Process{{PID: 4711, Host: true, Memory: 60 * gibi}}, false}, // it has no more than is in use
		"30 of 64 GiB are used by x, pid 7, of this machine": { // and is the process that is known
			30, []usage.Process{{PID: 4711, Host: true, Memory: 30 * gibi}, {PID: 7, Name: "x", Memory: 29.9 * gibi}}, false},
		"46 of 64 GiB are used, and no known process has them": {46, nil, false},
		"46 of 64 GiB are used: 30 GiB by vllm, pid 7, in container 4c01db0b339c; 16 GiB by no known process": {
			46, []usage.Process{docker}, false},
		"": {6.3, []usage.Process{{PID: 7, Name: "Xorg", Memory: 6.3 * gibi}}, false},
		"6.5 of 64 GiB are used by Xorg, pid 7, of this machine": {6.5, []usage.Process{{PID: 7, Name: "Xorg", Memory: 6.5 * gibi}}, false},
	} {
		require.Equal(t, want, lookAt(0, c).Memory.Text())
	}
}

// Ends beside a program of the machine are no evidence against the GPU, so a run has its memory.
func TestRunRecordsTheMemoryThatOthersHadBefore(t *testing.T) {
	both := []usage.Process{server, build}
	r := recordAt(0, memoryLook{58, both[:1], false}, memoryLook{63, both, true})
	require.InDelta(t, 58, *r.Runs[0].GPUs[0].MemoryBefore/gibi, .01)
	r = recordAt(0, memoryLook{5, both[1:], true})
	require.Nil(t, r.Runs[0].GPUs[0].MemoryBefore, "no look saw the GPU without a task")
}

// Memory without an owner is shown as long as it is in use, and tasks change nothing of it.
func TestMemoryWithoutAnOwnerStaysShown(t *testing.T) {
	const want = "46 of 64 GiB are used, and no known process has them"
	all := append(repeat(3, memoryLook{46, nil, false}), memoryLook{50, []usage.Process{build}, true})
	require.Equal(t, want, lookAt(0, all...).Memory.Text())
	all = append(all, repeat(8, memoryLook{46, nil, false})...)
	g := lookAt(0, all...)
	require.Equal(t, want, g.Memory.Text())
	require.Equal(t, InService, g.State)
	require.InDelta(t, 18./64, g.Memory.FreeShare(), .001)
	require.Empty(t, lookAt(0, append(all, memoryLook{.2, nil, false})...).Memory.Text())
}

func TestOwnersOfAPartitionsMemoryAreNamed(t *testing.T) {
	used, total := 20.*gibi, 24.*gibi
	s, _ := sign(0, '.')
	s.Memory, s.Total, s.Partition, s.UsersAt = &used, &total, true, start
	s.Processes = []usage.Process{{PID: 7, Name: "vllm", Memory: used}}
	r := Decide(Record{}, Look{At: start, Policy: Auto, GPUs: []Reading{s}})
	g := r.Find(names[0])
	require.Equal(t, "20 of 24 GiB are used by vllm, pid 7, of this machine", g.Memory.Text())
	require.InDelta(t, 4./24, g.Memory.FreeShare(), .001)
	_, known := g.MaxIdleMemory()
	require.False(t, known, "the driver counts it for the whole card")
}

func TestNextTaskMayFindTheMemoryOfOthers(t *testing.T) {
	limit, known := lookAt(0, memoryLook{58, []usage.Process{server}, false}).MaxIdleMemory()
	require.True(t, known)
	require.Greater(t, limit, uint64(58*gibi))
	require.Less(t, limit, uint64(61*gibi))
	limit, _ = lookAt(0, memoryLook{.2, nil, false}).MaxIdleMemory()
	require.Less(t, limit, uint64(gibi))
}

// A container of another engine with a lease is no one else.
func TestContainerWithALeaseUsesItsOwnGPU(t *testing.T) {
	used, total := 30.*gibi, 64.*gibi
	s, _ := sign(0, '.')
	s.Memory, s.Total = &used, &total
	s.Processes = []usage.Process{{PID: 7, Name: "vllm", Container: "4c01db0b339c", Memory: 29 * gibi}}
	s.UsersAt = start
	l := Look{At: start, Policy: Auto, GPUs: []Reading{s}, EngineLeases: names[:1]}
	g := Decide(Record{}, l)
	require.Empty(t, g.Find(names[0]).Memory.Text())
	l.EngineLeases = nil
	g = Decide(Record{}, l)
	require.NotEmpty(t, g.Find(names[0]).Memory.Text())
}

package lease

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seed  = flag.Uint64("lease.seed", 0, "of the random steps; 0 is one of the time")
	steps = flag.Int("lease.steps", 10000, "random steps in each layout of cgroups")
)

// No GPU is ever with two containers that can use it, and none is lost,
// whatever happens to whom, and wherever a call is killed.
func TestNoGPUIsHeldTwiceOrLost(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	for _, v2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "cgroup v1", true: "cgroup v2"}[v2], func(t *testing.T) {
			t.Parallel()
			t.Logf("go test ./internal/pool/lease -lease.seed=%d -lease.steps=%d", from, *steps)
			m := newModel(t, v2, from)
			for m.n = range *steps {
				m.step()
			}
			m.finish()
			t.Logf("%d steps did %v", *steps, m.did)
			for _, what := range []string{
				"run taken", "run refused", "run ended", "run killed", "run left others", "run's others ended",
				"taken", "refused", "call killed", "entered", "entered again",
				"exec refused", "create killed", "exec killed", "task left others", "created expired", "deleted", "rebooted", "released", "damaged", "moved", "escaped",
				"container taken", "container ended", "container escaped", "pod kept", "pod refused", "pod ended", "reconciled", "keeper killed",
				"claim held", "claim refused", "claim released",
			} {
				if *steps >= 10000 { // too few need not come to all of it
					require.NotZero(t, m.did[what], what)
				}
			}
		})
	}
}

// crash is kill -9 of a call.
type crash struct{}

type model struct {
	*world
	r          *rand.Rand
	l          Leases
	n          int
	boots      int
	made       int
	containers []*container
	owner      []*container
	damaged    []bool
	pods       []pod    // that the kubelet lists
	kept       []string // by which name a pod or claim has each GPU, until its keeper gives it back
	claims     []claim  // that the kubelet has
	noKeeper   bool
	runs       []*run
	did        map[string]int
}

// container is what the model knows of one that got GPUs.
type container struct {
	Call
	gpus    []int
	calls   []*inside // that were let in and are in progress
	init    int
	noFile  bool // init is not in the pid file
	broken  bool // its create was killed
	entered bool
	escaped bool // init is in another cgroup
	torn    bool // an Enter was killed, which may have ended the time that create gave
	called  time.Time
	tasks   []int
}

// inside is a runc call after it was let in.
type inside struct {
	pid    int
	create bool
	done   bool // its process is in the container
}

// outcome is what came of a call that may be killed.
type outcome struct {
	killed bool
	gpus   []int
	err    error
}

func newModel(t *testing.T, v2 bool, from uint64) *model {
	m := &model{world: newWorld(t, v2), r: rand.New(rand.NewPCG(from, uint64(len(t.Name())+map[bool]int{true: 1}[v2]))), did: map[string]int{}}
	m.pick = func(free []int) int { return free[m.r.IntN(len(free))] }
	m.l = m.leases("GPU-0", "GPU-1", "GPU-10", "GPU-2", "GPU-3")
	m.l.Links = [][]int{{0, 8, 0, 1, 1}, {8, 0, 0, 1, 1}, {0, 0, 0, 0, 0}, {1, 1, 0, 0, 8}, {1, 1, 0, 8, 0}}
	m.owner = make([]*container, len(m.l.GPUs))
	m.damaged = make([]bool, len(m.l.GPUs))
	m.kept = make([]string, len(m.l.GPUs))
	return m
}

func (m *model) note(format string, args ...any) {
	m.did[format]++
	if testing.Verbose() && *steps <= 300 {
		m.t.Logf("%d: %s %v", m.n, format, args)
	}
}

// alive returns whether the container has its lease in the model.
func (m *model) alive(c *container) bool { return m.running(c) || m.reserved(c) }

// running: someone in it uses its GPUs, or is about to.
func (m *model) running(c *container) bool {
	return c != nil && (len(c.calls) > 0 || len(c.tasks) > 0 || c.OwnProcess && c.init != 0 && !c.noFile)
}

// reserved: its exec is awaited.
func (m *model) reserved(c *container) bool {
	return c != nil && !c.OwnProcess && !c.entered && c.init != 0 && !c.noFile && m.clock.Sub(c.called).Abs() < time.Minute
}

func (m *model) held(g int) bool {
	return m.damaged[g] || m.kept[g] != "" || m.runOf(g) != nil || m.alive(m.owner[g])
}

// unsure: a killed Enter may or may not have come to this GPU.
func (m *model) unsure(g int) bool {
	c := m.owner[g]
	return !m.damaged[g] && c != nil && c.torn && !m.running(c) && m.reserved(c)
}

func (m *model) step() {
	switch roll := m.r.IntN(100); {
	case roll < 8:
		m.take()
	case roll < 10:
		m.endContainer()
	case roll < 14:
		m.stepPods()
	case roll < 17:
		m.stepClaims()
	case roll < 20:
		m.stepRuns()
	case roll < 44:
		m.proceed()
	case roll < 60:
		m.enter()
	case roll < 68:
		m.endTask()
	case roll < 77:
		m.take()
	case roll < 80:
		m.kill()
	case roll < 84:
		m.delete()
	case roll < 87:
		m.clock = m.clock.Add(time.Duration(m.r.IntN(50000)) * time.Millisecond)
	case roll < 89:
		m.moveInit()
	case roll < 90:
		m.escapes()
	case roll < 92:
		m.release()
	case roll < 93:
		m.damage()
	case roll < 96:
		m.unrelated()
	case roll < 97 && m.r.IntN(6) == 0:
		m.reboot()
	default:
		m.forks()
	}
	m.check()
}

// check compares what is read with what the model knows.
func (m *model) check() []bool {
	users := make([]int, len(m.owner))
	for g, pod := range m.kept {
		if pod != "" {
			users[g]++
		}
	}
	for g := range m.owner {
		if m.runOf(g) != nil {
			users[g]++
		}
	}
	for _, c := range m.containers {
		if m.running(c) {
			for _, g := range c.gpus {
				users[g]++
				require.LessOrEqual(m.t, users[g], 1, "step %d: GPU %d is with two", m.n, g)
			}
		}
	}
	states, _, err := m.l.Read()
	require.NoError(m.t, err, "step %d", m.n)
	held := make([]bool, len(states))
	for g, s := range states {
		held[g] = s.Held
		if m.unsure(g) {
			continue
		}
		require.Equal(m.t, m.held(g), s.Held, "step %d: GPU %d: %+v, owner %+v", m.n, g, s, m.owner[g])
		require.Equal(m.t, m.damaged[g], s.Doubt != "", "step %d: %s", m.n, s.Doubt)
		switch {
		case !s.Held || m.damaged[g]:
		case m.kept[g] != "":
			kind := Pod
			if m.claimed(m.kept[g]) {
				kind = Claimed
			}
			require.Equal(m.t, State{Kind: kind, Container: m.kept[g]}, State{Kind: s.Kind, Container: s.Container}, "step %d", m.n)
		case m.runOf(g) != nil:
			r := m.runOf(g)
			require.Equal(m.t, State{Kind: Run, Container: r.ID, TaskEnded: r.ended()},
				State{Kind: s.Kind, Container: s.Container, TaskEnded: s.TaskEnded}, "step %d", m.n)
		default:
			require.Equal(m.t, State{Kind: m.owner[g].kind(), Container: m.owner[g].Container}, State{Kind: s.Kind, Container: s.Container}, "step %d", m.n)
		}
	}
	return held
}

// free are the GPUs that a Take can get now.
func (m *model) free(w Want) (list []int) {
	held := m.check()
	for g := range held {
		if !held[g] && (w.Of == nil || slices.Contains(w.Of, g)) {
			list = append(list, g)
		}
	}
	return list
}

func (m *model) busyProcs() bool { return len(m.procs) > 34 }

// some is one of the containers of which this is true, nil for none.
func (m *model) some(of func(*container) bool) *container {
	for _, at := range m.r.Perm(len(m.containers)) {
		if c := m.containers[at]; of(c) {
			return c
		}
	}
	return nil
}

func anyOne(*container) bool     { return true }
func calls(c *container) bool    { return len(c.calls) > 0 }
func hasTasks(c *container) bool { return len(c.tasks) > 0 }

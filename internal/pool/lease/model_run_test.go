package lease

import (
	"slices"
	"strconv"

	"github.com/stretchr/testify/require"
)

// run is a command of gpukit run that got GPUs, as the model knows it.
type run struct {
	RunCall
	gpus   []int
	first  int   // its process, 0 once that has ended
	others []int // in its group
}

func (r *run) ended() bool { return r.first == 0 }

// runOf returns the run that has a GPU, nil for none.
func (m *model) runOf(gpu int) *run {
	for _, r := range m.runs {
		if slices.Contains(r.gpus, gpu) && (r.first != 0 || len(r.others) > 0) {
			return r
		}
	}
	return nil
}

// stepRuns is what runs and their service do.
func (m *model) stepRuns() {
	if len(m.runs) == 0 || m.r.IntN(3) == 0 {
		m.takeForRun()
		return
	}
	r := m.runs[m.r.IntN(len(m.runs))]
	switch roll := m.r.IntN(5); {
	case roll < 2 && r.Group != "" && !m.busyProcs() && (r.first != 0 || len(r.others) > 0):
		r.others = append(r.others, m.spawn("gpukit/"+r.ID+[]string{"", "/deep"}[m.r.IntN(2)]))
	case roll == 2 && r.first != 0:
		pid := r.first
		r.first = 0
		if m.r.IntN(2) == 0 {
			m.die(pid)
			m.check() // a zombie is no run
			m.note("run killed")
		}
		m.reap(pid)
		if len(r.others) > 0 {
			m.note("run left others")
		}
	default:
		for _, pid := range r.others {
			m.reap(pid)
		}
		if r.first == 0 {
			m.note("run's others ended")
			m.removeGroup("gpukit/" + r.ID)
			m.runs = slices.DeleteFunc(m.runs, func(o *run) bool { return o == r })
		}
		r.others = nil
	}
	if r.first == 0 && len(r.others) == 0 {
		m.note("run ended")
	}
}

func (m *model) takeForRun() {
	if len(m.runs) > 3 || m.busyProcs() {
		return
	}
	m.made++
	c := RunCall{ID: "run-" + strconv.Itoa(m.made), Title: "ada: make", PID: m.spawn("")}
	c.Start = m.procs[c.PID].start
	group := "gpukit/" + c.ID
	if m.r.IntN(4) > 0 {
		c.Group = m.groupDir(group)
		m.groups[group] = []int{}
		m.listGroup(group)
	}
	want := Want{Count: 1 + m.r.IntN(2)}
	free := m.free(want)
	o := m.mayDie(func(l Leases) (o outcome) {
		o.gpus, o.err = l.TryForRun(c, want)
		return o
	})
	switch {
	case o.killed || o.err != nil:
		var refused *Refusal
		require.True(m.t, o.killed || len(free) < want.Count, "step %d: %v", m.n, o.err)
		if !o.killed {
			require.ErrorAs(m.t, o.err, &refused, "step %d", m.n)
			m.note("run refused")
		}
		m.reap(c.PID) // with the service that leased for it, or as it gets no GPU
		m.removeGroup(group)
		return
	}
	require.Subset(m.t, free, o.gpus, "step %d", m.n)
	for _, g := range o.gpus {
		m.owner[g] = nil
	}
	if c.Group != "" && m.r.IntN(5) > 0 { // otherwise it is not moved yet
		m.move(c.PID, group)
	}
	m.runs = append(m.runs, &run{RunCall: c, gpus: o.gpus, first: c.PID})
	m.note("run taken")
}

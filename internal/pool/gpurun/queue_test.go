package gpurun

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// machineOf returns a machine with GPUs of these architectures.
func machineOf(gfx ...string) (m Machine) {
	for i, g := range gfx {
		address := fmt.Sprintf("0000:%02x:00.0", i+1)
		m.GPUs = append(m.GPUs, GPU{Slot: gpu.Slot{Index: i, PCI: address, GFX: g, UniqueID: fmt.Sprintf("%016x", i+10)},
			Model: "AMD Test", Order: len(gfx) - 1 - i})
		m.Leases.GPUs = append(m.Leases.GPUs, address)
	}
	return m
}

// pool leases GPUs in memory.
type pool struct {
	free     map[int]bool
	excluded map[int]bool
}

func (p pool) grant(_ *waiter, of []int, count int) (*Grant, error) {
	var got []int
	usable := 0
	for _, g := range of {
		if p.excluded[g] {
			continue
		}
		usable++
		if p.free[g] && len(got) < count {
			got = append(got, g)
		}
	}
	switch {
	case usable < count:
		return nil, &lease.Refusal{Reason: lease.NotInService, Kind: lease.Run, Count: count}
	case len(got) < count:
		return nil, &lease.Refusal{Reason: lease.Busy, Kind: lease.Run, Count: count}
	}
	grant := &Grant{}
	for _, g := range got {
		p.free[g] = false
		grant.GPU = append(grant.GPU, Leased{Number: g})
	}
	return grant, nil
}

func waiting(r Request) *waiter {
	return &waiter{request: r, outcome: make(chan Reply, 1)}
}

// outcomes returns the GPUs of each request, "waits", or "refused".
func outcomes(all []*waiter) (list []string) {
	for _, w := range all {
		select {
		case r := <-w.outcome:
			if r.Granted == nil {
				list = append(list, "refused")
				continue
			}
			list = append(list, numbersOf(r.Granted.GPU))
		default:
			list = append(list, "waits")
		}
	}
	return list
}

func TestRequestGetsNoGPUThatAnEarlierOneCouldUse(t *testing.T) {
	for name, c := range map[string]struct {
		busy, excluded []int
		requests       []Request
		want           []string
	}{
		"free":                       {nil, nil, []Request{{GPUs: 2}, {GPUs: 2}}, []string{"GPU 0, 1", "GPU 2, 3"}},
		"small ones do not overtake": {[]int{0}, nil, []Request{{GPUs: 4}, {GPUs: 1}}, []string{"waits", "waits"}},
		"other GPUs are no reason to wait": {[]int{1}, nil, []Request{{IDs: []string{"1"}}, {IDs: []string{"2"}}, {GPUs: 1}},
			[]string{"waits", "GPU 2", "GPU 0"}},
		"architectures apart": {[]int{2}, nil,
			[]Request{{GPUs: 2, Arch: "gfx942"}, {GPUs: 1, Arch: "gfx90a"}, {GPUs: 1, Arch: "gfx942"}},
			[]string{"waits", "GPU 0", "waits"}},
		"quarantined GPUs hold no other request back": {nil, []int{3}, []Request{{GPUs: 4}, {GPUs: 1}},
			[]string{"waits", "GPU 0"}},
		"not waiting": {[]int{0}, nil, []Request{{GPUs: 4, NoWait: true}, {GPUs: 1}, {GPUs: 9}},
			[]string{"refused", "GPU 1", "refused"}},
	} {
		m := machineOf("gfx90a", "gfx90a", "gfx942", "gfx942")
		p := pool{map[int]bool{0: true, 1: true, 2: true, 3: true}, map[int]bool{}}
		for _, g := range c.busy {
			p.free[g] = false
		}
		for _, g := range c.excluded {
			p.excluded[g] = true
		}
		var all []*waiter
		for _, r := range c.requests {
			all = append(all, waiting(r))
		}
		left := serveQueue(slices.Clone(all), m, p.grant)
		got := outcomes(all)
		require.Equal(t, c.want, got, name)
		for _, w := range left {
			require.NotEmpty(t, w.why, name)
		}
		require.Len(t, left, len(slices.DeleteFunc(got, func(s string) bool { return s != "waits" })), name)
	}
}

// Whatever comes and goes, each request gets its GPUs once those before it have ended.
func TestNoRequestStarves(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := machineOf("a", "a", "b", "b")
		p := pool{map[int]bool{0: true, 1: true, 2: true, 3: true}, map[int]bool{}}
		var queue, all []*waiter
		for range 1 + random.IntN(30) {
			r := Request{GPUs: 1 + random.IntN(2), Arch: []string{"a", "b"}[random.IntN(2)]}
			if random.IntN(2) == 0 {
				r = Request{GPUs: 1 + random.IntN(4)}
			}
			w := waiting(r)
			queue, all = append(queue, w), append(all, w)
		}
		for len(queue) > 0 {
			first := queue[0]
			queue = serveQueue(queue, m, p.grant)
			require.NotContains(t, queue, first, "seed %d: all GPUs were free for the first one", seed)
			got := map[int]bool{}
			for _, w := range all {
				select {
				case r := <-w.outcome:
					require.NotNil(t, r.Granted)
					for _, g := range r.Granted.GPU {
						require.False(t, got[g.Number], "seed %d: two runs have GPU %d", seed, g.Number)
						got[g.Number] = true
					}
				default:
				}
			}
			for g := range got { // all end
				p.free[g] = true
			}
		}
	}
}

// An old process does not overtake those that wait. After a restart of the service, clients
// report how long they have waited.
func TestQueueIsOrderedByArrival(t *testing.T) {
	old, young := lease.Process{PID: 2}, lease.Process{PID: 3, Start: 1 << 50} // just after the boot, and now
	type client struct {
		name   string
		of     lease.Process
		waited time.Duration
	}
	for name, c := range map[string]struct {
		running time.Duration // of the service
		clients []client
		want    []string
	}{
		"arrival": {time.Hour, []client{{"a", young, 0}, {"b", old, 0}, {"c", young, 0}}, []string{"a", "b", "c"}},
		"a lie":   {time.Hour, []client{{"a", old, 0}, {"b", old, time.Hour}}, []string{"a", "b"}},
		"after a restart": {0, []client{{"new", old, 0}, {"third", old, time.Second}, {"first", old, 3 * time.Second},
			{"second", old, 2 * time.Second}}, []string{"first", "second", "third", "new"}},
		"older than its process": {0, []client{{"a", old, time.Second}, {"b", young, 1 << 62}, {"c", old, 0}}, []string{"a", "b", "c"}},
		"less than nothing":      {0, []client{{"a", old, 0}, {"b", old, -time.Hour}}, []string{"a", "b"}},
	} {
		s := &Server{wake: make(chan struct{}, 1), began: time.Now().Add(-c.running)}
		for _, one := range c.clients {
			r := Request{GPUs: 1, Waited: one.waited.Milliseconds()}
			s.enqueue(&waiter{request: r, title: one.name, since: s.arrival(r, one.of)})
		}
		var got []string
		for _, w := range s.waiting {
			got = append(got, w.title)
		}
		require.Equal(t, c.want, got, name)
	}
}

package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Busy is of the time between two looks, whatever was counted before.
func TestBusyIsAShareOfTheTimeSinceTheLastScan(t *testing.T) {
	m := newMachine(t)
	m.process(100, task)
	s := m.scanner(Options{})
	for i, step := range []struct {
		clients map[int]int // id -> seconds of the engine
		want    []Amount
	}{
		{map[int]int{1: 3600}, nil}, // no one looked before
		{map[int]int{1: 3603}, []Amount{{"gfx", .3}}},
		{map[int]int{1: 3603}, []Amount{{"gfx", 0}}},
		{map[int]int{1: 3608, 2: 4}, []Amount{{"gfx", .9}}},        // a new client began since
		{map[int]int{1: 3608, 2: 4, 3: 500}, []Amount{{"gfx", 1}}}, // an old one that was not seen before
		{map[int]int{1: 3617, 2: 10}, []Amount{{"gfx", 1.5}}},      // several of the engine's kind
		{map[int]int{}, []Amount{{"gfx", 0}}},
	} {
		m.ends(100)
		m.process(100, task)
		for id, seconds := range step.clients {
			m.opens(100, 10+id, "/dev/dri/renderD128", amdgpu(first.PCI, id, 1, seconds*1e9))
		}
		scan(t, s, first)
		row := s.Last().Of(first)[0]
		require.Equal(t, step.want, row.Busy, "step %d", i)
		m.now = m.now.Add(10 * time.Second)
	}
}

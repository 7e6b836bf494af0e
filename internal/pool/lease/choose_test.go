package lease

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// linked makes a matrix from what joins two GPUs.
func linked(n int, link func(i, j int) int) Leases {
	l := Leases{GPUs: make([]string, n), Links: make([][]int, n)}
	for i := range n {
		l.GPUs[i], l.Links[i] = strconv.Itoa(i), make([]int, n)
		for j := range n {
			if i != j {
				l.Links[i][j] = link(i, j)
			}
		}
	}
	return l
}

// hives are GPUs in groups of so many that XGMI joins; all are on NUMA nodes of
// two groups.
func hives(of int) func(i, j int) int {
	return func(i, j int) int {
		switch {
		case i/of == j/of:
			return LinkXGMI
		case i/of/2 == j/of/2:
			return LinkNUMA
		}
		return 0
	}
}

func TestChooseKeepsLinkedGPUsTogether(t *testing.T) {
	two := linked(8, hives(4))
	numa := linked(8, func(i, j int) int { return map[bool]int{true: LinkNUMA}[i/4 == j/4] })
	odd := linked(5, func(i, j int) int { return map[bool]int{true: LinkXGMI}[i < 2 && j < 2 || i > 2 && j > 2] })
	ring := linked(4, func(i, j int) int { return map[bool]int{true: LinkXGMI}[(i+1)%4 == j || (j+1)%4 == i] })
	bad := Leases{GPUs: make([]string, 4), Links: [][]int{{0, 8}, {8}}}
	for _, c := range []struct {
		name       string
		l          Leases
		candidates []int
		free       []int // nil: the same
		n          int
		want       []int
	}{
		{"a pair of one hive", two, []int{0, 3, 4, 5, 6, 7}, nil, 2, []int{0, 3}},
		{"the lowest pair when all is free", two, seq(0, 8), nil, 2, []int{0, 1}},
		{"three of the hive that has only three", two, []int{0, 1, 2, 3, 5, 6, 7}, nil, 3, []int{5, 6, 7}},
		{"a whole hive", two, []int{1, 2, 3, 4, 5, 6, 7}, nil, 4, []int{4, 5, 6, 7}},
		{"five, with the hive that is left whole", two, seq(0, 8), nil, 5, []int{0, 1, 2, 3, 4}},
		{"all eight", two, seq(0, 8), nil, 8, seq(0, 8)},
		{"one takes the loner", two, []int{0, 1, 2, 3, 6}, nil, 1, []int{6}},
		{"one takes the GPU that nothing joins", odd, seq(0, 5), nil, 1, []int{2}},
		{"one takes what stays useful least, also where it may not have the loner", two, []int{0, 5}, []int{0, 1, 2, 5, 6}, 1, []int{5}},
		{"two on one NUMA node", numa, []int{0, 4, 7}, nil, 2, []int{4, 7}},
		{"two of the smaller rest of a node", numa, []int{0, 1, 2, 6, 7}, nil, 2, []int{6, 7}},
		{"neighbours in a ring", ring, []int{0, 2, 3}, nil, 2, []int{0, 3}},
		{"links not known", linked(6, func(int, int) int { return 0 }), []int{1, 3, 5}, nil, 2, []int{1, 3}},
		{"no links given", Leases{GPUs: make([]string, 4)}, []int{1, 2, 3}, nil, 2, []int{1, 2}},
		{"links of another length", bad, []int{0, 1, 2, 3}, nil, 2, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.free == nil {
				c.free = c.candidates
			}
			require.Equal(t, c.want, c.l.choose(c.candidates, c.free, c.n, make([]int64, len(c.l.GPUs))))
		})
	}
}

// 8 GPUs of 8 partitions each have too many sets to look at them all.
func TestChooseKeepsPartitionsOfAGPUTogether(t *testing.T) {
	cpx := linked(64, func(i, j int) int {
		if i/8 == j/8 {
			return LinkSame
		}
		return hives(4)(i/8, j/8)
	})
	part := append(seq(0, 8), 8, 9, 10, 16, 17, 18, 19, 33)
	for _, c := range []struct {
		name string
		from []int
		n    int
		want []int
	}{
		{"one GPU", seq(0, 64), 8, seq(0, 8)},
		{"two GPUs of one hive", seq(8, 64), 16, seq(8, 24)},
		{"the whole of a hive", seq(8, 64), 32, seq(32, 64)},
		{"all but one", seq(0, 64), 63, seq(0, 63)},
		{"three from a GPU with three left", part, 3, []int{8, 9, 10}},
		{"four from a GPU with four left", part, 4, []int{16, 17, 18, 19}},
		{"one, and a pair, exact", part, 2, []int{8, 9}},
		{"the loner", part, 1, []int{33}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, cpx.choose(c.from, c.from, c.n, make([]int64, 64))) })
	}
	require.Greater(t, countSets(64, 3), maxSets, "greedy is what was shown")
	require.Equal(t, 70, countSets(8, 4))
	require.Greater(t, countSets(64, 32), maxSets)
}

// If both can be done, greedy is as good in hives.
func TestGreedyIsExactInHives(t *testing.T) {
	l := linked(8, hives(4))
	for bits := 1; bits < 256; bits++ {
		var from []int
		for g := range 8 {
			if bits>>g&1 == 1 {
				from = append(from, g)
			}
		}
		total := make([]int, 8)
		for _, c := range from {
			for _, f := range from {
				total[c] += l.link(c, f)
			}
		}
		for n := 1; n < len(from); n++ {
			exact, greedy := l.exact(from, n, total, make([]int64, 8)), l.greedy(from, n, total, make([]int64, 8))
			require.Equal(t, l.within(exact), l.within(greedy), "%d of %v: %v, %v", n, from, exact, greedy)
		}
	}
}

func (l Leases) within(gpus []int) (sum int) {
	for i, a := range gpus {
		for _, b := range gpus[:i] {
			sum += l.link(a, b)
		}
	}
	return sum
}

func seq(from, to int) []int {
	return slices.Collect(func(yield func(int) bool) {
		for i := from; i < to && yield(i); i++ {
		}
	})
}

func TestGPUsToAvoidAreTakenLast(t *testing.T) {
	const step = "step"
	for name, c := range map[string]struct {
		avoid map[int][]string
		count int
		want  []int // of three GPUs
	}{
		"none":                       {nil, 2, []int{0, 1}},
		"the others are just enough": {map[int][]string{0: {step}}, 2, []int{1, 2}},
		"the others are more":        {map[int][]string{0: {step}}, 1, []int{1}},
		"the others are too few":     {map[int][]string{0: {step}}, 3, []int{0, 1, 2}},
		"all":                        {map[int][]string{0: {step}, 1: {step}, 2: {step}}, 1, []int{0}},
		"another step's fault":       {map[int][]string{0: {"other"}}, 1, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			call := w.call("c1", w.spawn(""))
			call.StepHash = step
			got, err := w.leases("a", "b", "c").Take(call, Want{Count: c.count, Avoid: c.avoid})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

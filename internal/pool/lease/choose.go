package lease

import (
	"cmp"
	"slices"
)

// Weight is how well two GPUs are joined, for Leases.Links: partitions of one GPU, then
// XGMI by the fewest hops, then the same NUMA node, which also decides between equal links.
// hops is 0 where no XGMI joins them.
func Weight(same bool, hops int, numa bool) (w int) {
	if numa {
		w = LinkNUMA
	}
	switch {
	case same:
		return LinkSame
	case hops > 0:
		w += max(LinkXGMI/hops, 2*LinkNUMA)
	}
	return w
}

// Prefer picks n of the GPUs that are free as Take would, with all of must, which are
// among them. Both are sorted; n is not less than must has, and there are n or more.
func (l Leases) Prefer(free, must []int, n int) []int {
	if n == len(must) {
		return slices.Clone(must)
	}
	const above = 1 << 20 // all that other links come to
	links := make([][]int, len(l.GPUs))
	for i := range links {
		links[i] = make([]int, len(l.GPUs))
		for j := range links {
			links[i][j] = l.link(i, j)
			if slices.Contains(must, i) || slices.Contains(must, j) {
				links[i][j] += above
			}
		}
	}
	l.Links = links
	return l.choose(free, free, n)
}

// maxSets bounds the sets that are all looked at: 70 are the most for 8 GPUs.
const maxSets = 5000

// set is a choice of GPUs: by index, lowest first.
type set struct {
	gpus   []int
	within int // weight of the links between them
	broken int // weight of those between them and what stays free
}

// better is the order of choice: linked best; then breaking least of what stays
// free, so that a single GPU comes from no hive that is whole; then the lowest.
func (a set) better(b set) bool {
	return cmp.Or(cmp.Compare(b.within, a.within), cmp.Compare(a.broken, b.broken), slices.Compare(a.gpus, b.gpus)) < 0
}

// choose picks n of the candidates, all of which are among the free; both are
// sorted, and there are n or more candidates.
func (l Leases) choose(candidates, free []int, n int) []int {
	if n == len(candidates) {
		return slices.Clone(candidates)
	}
	total := make([]int, len(l.GPUs)) // weight of each one's links to all that is free
	for _, c := range candidates {
		for _, f := range free {
			total[c] += l.link(c, f)
		}
	}
	if sets(len(candidates), n) > maxSets {
		return l.greedy(candidates, n, total)
	}
	return l.exact(candidates, n, total)
}

// link is the weight between two GPUs, 0 where that is not known.
func (l Leases) link(i, j int) int {
	i, j = min(i, j), max(i, j)
	if i == j || i >= len(l.Links) || j >= len(l.Links[i]) {
		return 0
	}
	return l.Links[i][j]
}

// sets is the number of ways to choose k of n, or anything beyond maxSets.
func sets(n, k int) int {
	ways := 1
	for i := range min(k, n-k) {
		if ways = ways * (n - i) / (i + 1); ways > maxSets {
			break
		}
	}
	return ways
}

func (l Leases) exact(candidates []int, n int, total []int) []int {
	var best set
	chosen := make([]int, 0, n)
	var add func(from, within, outer int)
	add = func(from, within, outer int) {
		if len(chosen) == n {
			// Links within count twice in the totals.
			if s := (set{chosen, within, outer - 2*within}); best.gpus == nil || s.better(best) {
				s.gpus = slices.Clone(chosen)
				best = s
			}
			return
		}
		for i := from; i <= len(candidates)-(n-len(chosen)); i++ {
			c, more := candidates[i], 0
			for _, o := range chosen {
				more += l.link(o, c)
			}
			chosen = append(chosen, c)
			add(i+1, within+more, outer+total[c])
			chosen = chosen[:len(chosen)-1]
		}
	}
	add(0, 0, 0)
	return best.gpus
}

// greedy begins with each candidate and adds the one that is linked best to
// those it has, then the one that breaks least.
func (l Leases) greedy(candidates []int, n int, total []int) []int {
	var best set
	for _, first := range candidates {
		s := set{gpus: []int{first}}
		outer := total[first]
		gain := make([]int, len(l.GPUs)) // of each candidate, to those chosen
		for last := first; len(s.gpus) < n; {
			next := -1
			for _, c := range candidates {
				if c == last {
					gain[c] = -1 << 31 // chosen
				}
				if gain[c] < 0 {
					continue
				}
				gain[c] += l.link(last, c)
				if next < 0 || cmp.Or(cmp.Compare(gain[c], gain[next]), cmp.Compare(total[next]-gain[next], total[c]-gain[c])) > 0 {
					next = c
				}
			}
			s.gpus = append(s.gpus, next)
			s.within += gain[next]
			outer += total[next]
			last = next
		}
		s.broken = outer - 2*s.within
		slices.Sort(s.gpus)
		if best.gpus == nil || s.better(best) {
			best = s
		}
	}
	return best.gpus
}

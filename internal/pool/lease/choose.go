package lease

import (
	"cmp"
	"slices"
)

// LinkWeight rates the link of two GPUs for Leases.Links: partitions of one GPU, then XGMI
// with the fewest hops, then the same NUMA node, which also decides between equal links.
// hops is 0 if they have no XGMI link.
func LinkWeight(same bool, hops int, numa bool) (w int) {
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

// Prefer chooses n of the free GPUs as Take would, including all of must. GPUs with equal
// links are chosen by their indexes, without regard to earlier leases. Both are sorted,
// must is part of free, and n is between their lengths.
func (l Leases) Prefer(free, must []int, n int) []int {
	if n == len(must) {
		return slices.Clone(must)
	}
	const above = 1 << 20 // more than all other links together
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
	return l.choose(free, free, n, make([]int64, len(l.GPUs)))
}

// maxSets bounds the sets that are all compared. 8 GPUs have at most 70.
const maxSets = 5000

// set holds a choice of GPUs by index, lowest first.
type set struct {
	gpus   []int
	within int   // weight of the links between them
	broken int   // weight of the links between them and the GPUs that stay free
	given  int64 // when one of them was leased last
}

// better orders sets by the best links, then by the smallest loss for the GPUs that stay
// free, so that a single GPU does not come from an unused hive, then by the time of their
// last lease, so that tasks spread, then by the lowest indexes.
func (a set) better(b set) bool {
	return cmp.Or(cmp.Compare(b.within, a.within), cmp.Compare(a.broken, b.broken), cmp.Compare(a.given, b.given),
		slices.Compare(a.gpus, b.gpus)) < 0
}

// choose chooses n of the candidates, which are all free. Both are sorted, and there are at
// least n candidates. given has the start of each GPU's last lease, and 0 for none.
func (l Leases) choose(candidates, free []int, n int, given []int64) []int {
	if n == len(candidates) {
		return slices.Clone(candidates)
	}
	total := make([]int, len(l.GPUs)) // weight of the links from each candidate to all free GPUs
	for _, c := range candidates {
		for _, f := range free {
			total[c] += l.link(c, f)
		}
	}
	if countSets(len(candidates), n) > maxSets {
		return l.greedy(candidates, n, total, given)
	}
	return l.exact(candidates, n, total, given)
}

// link returns the weight between two GPUs, and 0 if it is not known.
func (l Leases) link(i, j int) int {
	i, j = min(i, j), max(i, j)
	if i == j || i >= len(l.Links) || j >= len(l.Links[i]) {
		return 0
	}
	return l.Links[i][j]
}

// countSets returns the number of ways to choose k of n, or a number above maxSets.
func countSets(n, k int) int {
	ways := 1
	for i := range min(k, n-k) {
		if ways = ways * (n - i) / (i + 1); ways > maxSets {
			break
		}
	}
	return ways
}

// last returns when one of the GPUs was leased last.
func last(gpus []int, given []int64) (at int64) {
	for _, g := range gpus {
		at = max(at, given[g])
	}
	return at
}

func (l Leases) exact(candidates []int, n int, total []int, given []int64) []int {
	var best set
	chosen := make([]int, 0, n)
	var add func(from, within, outer int)
	add = func(from, within, outer int) {
		if len(chosen) == n {
			// The totals contain each link within the set twice.
			if s := (set{chosen, within, outer - 2*within, last(chosen, given)}); best.gpus == nil || s.better(best) {
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

// greedy starts with each candidate and adds the one with the best links to the chosen
// ones, then the one with the smallest loss, then the one that was leased least recently.
func (l Leases) greedy(candidates []int, n int, total []int, given []int64) []int {
	var best set
	for _, first := range candidates {
		s := set{gpus: []int{first}}
		outer := total[first]
		gain := make([]int, len(l.GPUs)) // of each candidate, to the chosen ones
		for newest := first; len(s.gpus) < n; {
			next := -1
			for _, c := range candidates {
				if c == newest {
					gain[c] = -1 << 31 // chosen
				}
				if gain[c] < 0 {
					continue
				}
				gain[c] += l.link(newest, c)
				if next < 0 || cmp.Or(cmp.Compare(gain[c], gain[next]),
					cmp.Compare(total[next]-gain[next], total[c]-gain[c]), cmp.Compare(given[next], given[c])) > 0 {
					next = c
				}
			}
			s.gpus = append(s.gpus, next)
			s.within += gain[next]
			outer += total[next]
			newest = next
		}
		s.broken, s.given = outer-2*s.within, last(s.gpus, given)
		slices.Sort(s.gpus)
		if best.gpus == nil || s.better(best) {
			best = s
		}
	}
	return best.gpus
}

package clockpin

import "fmt"

// Clock is what a clock of a GPU was seen at while the GPU was busy, in MHz.
type Clock struct {
	Domain string // gfx, mem
	First  int
	Min    int
	Max    int
}

// MHz is a clock at one look.
type MHz struct {
	Domain string
	Value  int
}

// clockBand is how far a clock may be from where it was first, in percent: what two runs
// differ by for it is then within what a limit for slower programs allows for noise.
const clockBand = 5

// fixes tells whether a level fixes a clock. perf_determinism has a limit for the graphics
// clock alone.
func (l Level) fixes(domain string) bool { return domain == "gfx" || l == Standard }

// see is the clocks after a look at a GPU that is busy, and was at the look before: one
// that has just begun, or ends, is on its way up or down.
func see(seen []Clock, l Level, now []MHz) (all []Clock, why string) {
	all = append(all, seen...)
	for _, n := range now {
		c := clockOf(&all, n)
		c.Min, c.Max = min(c.Min, n.Value), max(c.Max, n.Value)
		if away := n.Value - c.First; why == "" && l.fixes(n.Domain) && 100*max(away, -away) > clockBand*c.First {
			why = fmt.Sprintf("its %s clock was %d MHz, and %d MHz at first", n.Domain, n.Value, c.First)
		}
	}
	return all, why
}

// clockOf is the place of a clock, which is made where there is none.
func clockOf(all *[]Clock, n MHz) *Clock {
	for i, c := range *all {
		if c.Domain == n.Domain {
			return &(*all)[i]
		}
	}
	*all = append(*all, Clock{n.Domain, n.Value, n.Value, n.Value})
	return &(*all)[len(*all)-1]
}

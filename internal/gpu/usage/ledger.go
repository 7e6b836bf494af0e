package usage

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// retention is the number of scans that an unseen client is stored for: when it
	// returns, its time must not be counted twice.
	retention = 4
	// linger is the shortest time that a container without clients stays, so that its last
	// numbers are scraped. After that it stays as long as its control group.
	linger = 5 * time.Minute
)

// use holds the resources and the work of one client.
type use struct {
	client  clientKey
	place   place
	pid     int
	screen  bool            // through a node of the GPU's screens
	outside bool            // of this container; pid is the host's
	memory  [numKinds]int64 // bytes; -1 is unknown
	engines []engine
	units   int64 // busy compute units; -1 is unknown
}

// clientKey identifies a client of one GPU: by its DRM id, or as a process of KFD.
type clientKey struct {
	kfd bool
	id  uint64
}

// ledger holds the account of one GPU.
type ledger struct {
	clients map[clientKey]*client
	totals  map[string]*total // by container
	last    time.Time         // previous update, or zero
}

// client holds the counted work of a client.
type client struct {
	done map[string]uint64 // ns by engine
	turn uint64
}

// total holds the work of a container's clients since the container was first seen.
type total struct {
	ns    map[string]uint64
	now   map[string]uint64 // part of ns since the previous update
	open  time.Duration     // time with the GPU open
	place place
	seen  time.Time
}

func newLedger() *ledger {
	return &ledger{clients: map[clientKey]*client{}, totals: map[string]*total{}}
}

// less orders the holders of a file that several processes hold: a process in a container
// precedes the machine's, then the lowest number, which usually opened the file.
func less(a place, apid int, b place, bpid int) bool {
	if host := a.container == ""; host != (b.container == "") {
		return !host
	}
	return apid < bpid
}

// compareUses sorts uses by their holders, see less.
func compareUses(a, b use) int {
	switch {
	case less(a.place, a.pid, b.place, b.pid):
		return -1
	case less(b.place, b.pid, a.place, a.pid):
		return 1
	}
	return 0
}

// oncePerClient returns the first use of each client. The uses must be sorted.
func oncePerClient(sorted []use) []use {
	var out []use
	seen := map[clientKey]bool{}
	for _, u := range sorted {
		if !seen[u.client] {
			seen[u.client] = true
			out = append(out, u)
		}
	}
	return out
}

// update counts the work since the last scan, and returns the rows. Work is added to the
// client's current container. So totals never fall, even if clients end or containers share
// the row Other.
func (l *ledger) update(now time.Time, turn uint64, uses []use, limit int, gone func(place) bool) []Row {
	slices.SortStableFunc(uses, compareUses)
	passed := time.Duration(0)
	if !l.last.IsZero() {
		passed = max(0, now.Sub(l.last))
	}
	l.last = now
	for _, t := range l.totals {
		clear(t.now)
	}
	rows := map[string]*row{}
	processes := map[string]map[int]bool{}
	for _, u := range uses { // including clients that several processes hold
		name := l.rowFor(u.place, limit)
		t := l.totals[name]
		if t.seen != now {
			t.open += passed // the excess of the first scan compensates for the last one
		}
		t.place, t.seen = u.place, now
		if processes[name] == nil {
			processes[name] = map[int]bool{}
		}
		processes[name][u.pid] = true
	}
	for _, u := range oncePerClient(uses) {
		name := l.rowFor(u.place, limit)
		l.count(l.totals[name], u, turn, uint64(passed))
		r := rows[name]
		if r == nil {
			r = &row{memory: [numKinds]int64{-1, -1, -1, -1}, units: -1}
			rows[name] = r
		}
		r.add(u)
	}
	maps.DeleteFunc(l.clients, func(_ clientKey, c *client) bool { return turn-c.turn > retention })
	maps.DeleteFunc(l.totals, func(name string, t *total) bool {
		return name != "" && name != Other && now.Sub(t.seen) >= linger && gone(t.place)
	})
	out := make([]Row, 0, len(l.totals))
	for _, name := range slices.Sorted(maps.Keys(l.totals)) {
		t := l.totals[name]
		r := Row{Container: name, Processes: len(processes[name]), Open: t.open.Seconds()}
		if sum := rows[name]; sum != nil {
			r.Memory, r.Units = sum.amounts()
		}
		for _, e := range slices.Sorted(maps.Keys(t.ns)) {
			r.Engines = append(r.Engines, Amount{e, float64(t.ns[e]) / 1e9})
			if passed > 0 {
				r.Busy = append(r.Busy, Amount{e, float64(t.now[e]) / float64(passed)})
			}
		}
		out = append(out, r)
	}
	return out
}

// rowFor returns the row of a container: its own while there is room, and then for its
// whole life. Containers without room share the row Other until one is free.
func (l *ledger) rowFor(p place, limit int) string {
	name := p.container
	if l.totals[name] == nil && name != "" {
		own := len(l.totals)
		for _, shared := range []string{"", Other} {
			if l.totals[shared] != nil {
				own--
			}
		}
		if own >= limit {
			name = Other
		}
	}
	if l.totals[name] == nil {
		l.totals[name] = &total{ns: map[string]uint64{}, now: map[string]uint64{}}
	}
	return name
}

// count adds the client's work since the last scan. A driver may report less than before
// for a while; the larger number is kept until it is reached again. A new client may have
// started before the last scan, so its recent work is limited to the elapsed time.
func (l *ledger) count(t *total, u use, turn, passed uint64) {
	c, most := l.clients[u.client], uint64(math.MaxUint64)
	if c == nil {
		c, most = &client{done: map[string]uint64{}}, passed
		l.clients[u.client] = c
	}
	c.turn = turn
	for _, e := range u.engines {
		if before := c.done[e.name]; e.ns > before {
			t.ns[e.name] += e.ns - before
			t.now[e.name] += min(e.ns-before, most)
			c.done[e.name] = e.ns
		}
	}
}

// row sums up the resources of a container's clients.
type row struct {
	memory [numKinds]int64
	units  int64
}

func (r *row) add(u use) {
	for k, n := range u.memory {
		if n >= 0 {
			r.memory[k] = max(0, r.memory[k]) + n
		}
	}
	if u.units >= 0 {
		r.units = max(0, r.units) + u.units
	}
}

func (r *row) amounts() (memory, units []Amount) {
	for k, n := range r.memory {
		if n >= 0 {
			memory = append(memory, Amount{kinds[k], float64(n)})
		}
	}
	if r.units >= 0 {
		units = []Amount{{Value: float64(r.units)}}
	}
	return memory, units
}

package lease

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Take leases all of the wanted GPUs to a container at its create, or none, and returns
// their indexes, lowest first. If they cannot be leased, the error is a *Refusal. With any
// error nothing is leased. It does not wait, because it would not learn that the build was
// aborted (docs/explanation/gpu-leases.md).
func (l Leases) Take(c Call, w Want) ([]int, error) {
	gpus, err := l.Try(c, w)
	l.CountRefusal(err)
	return gpus, err
}

// CountRefusal counts a *Refusal of Try after which the caller gives up.
func (l Leases) CountRefusal(err error) {
	var refused *Refusal
	if !errors.As(err, &refused) {
		return
	}
	dir, err := l.createDir()
	if err != nil {
		return // as in count
	}
	defer unix.Close(dir)
	l.count(dir, func(n *Counters) {
		if refused.Reason == Impossible {
			n.Impossible++
		} else {
			n.Busy++
		}
	})
}

// Try does the same as Take and does not count a refusal, because its caller may try again.
func (l Leases) Try(c Call, w Want) ([]int, error) {
	if err := l.checkCall(c); err != nil {
		return nil, err
	}
	if c.PidFile == "" {
		return nil, missingPidFile(c)
	}
	boot, err := l.boot()
	if err != nil {
		return nil, err
	}
	self, err := l.callingProcess(c.PID)
	if err != nil {
		return nil, err
	}
	r := c.record(self)
	r.boot = boot
	return l.try(r, w)
}

// try leases the wanted GPUs to the holder of a record, see Try.
func (l Leases) try(holder record, w Want) ([]int, error) {
	of, err := l.candidates(w)
	if err != nil {
		return nil, err
	}
	if w.Of != nil {
		w.Of = of
	}
	dir, err := l.createDir()
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	possible := len(of)
	if w.Of == nil {
		possible += len(l.Missing)
	}
	if w.Count > possible {
		return nil, &Refusal{Reason: Impossible, Kind: holder.kind, Count: w.Count, Of: l.named(w.Of), Total: len(l.GPUs)}
	}
	if len(w.Excluded) > 0 {
		of = slices.DeleteFunc(slices.Clone(of), func(g int) bool { return w.Excluded[g] != "" })
	}
	if w.Count > len(of) {
		return nil, &Refusal{Reason: NotInService, Kind: holder.kind, Count: w.Count, Of: l.named(w.Of),
			Total: len(l.GPUs) + len(l.Missing), InService: len(of), Excluded: l.excludedText(w)}
	}
	t := &takeCall{Leases: l, dir: dir, holder: holder, want: w, allowed: of}
	return t.try()
}

// takeCall holds the state of one call of Take.
type takeCall struct {
	Leases
	dir     int
	holder  record
	want    Want
	allowed []int
}

// try leases the GPUs if enough are free, and refuses otherwise.
func (t *takeCall) try() ([]int, error) {
	s, err := t.lock(t.dir, t.all())
	if err != nil {
		return nil, err
	}
	defer s.close()
	now := t.now()
	if err := t.read(s, t.holder.boot, now); err != nil {
		return nil, err
	}
	free := s.free()
	candidates := slices.DeleteFunc(slices.Clone(free), func(g int) bool { return !slices.Contains(t.allowed, g) })
	if len(candidates) < t.want.Count {
		return nil, t.giveUp(s, now)
	}
	candidates, unready := t.splitReady(candidates)
	if len(candidates) < t.want.Count {
		return nil, &Refusal{Reason: Unready, Kind: t.holder.kind, Count: t.want.Count, Of: t.named(t.want.Of),
			Total: len(t.GPUs), Unready: unready}
	}
	candidates = t.emptiest(candidates)
	if other := slices.DeleteFunc(slices.Clone(candidates), t.avoids); len(other) >= t.want.Count {
		candidates = other
	}
	given := s.given(len(t.GPUs))
	return t.grant(s, t.choose(t.spread(s, candidates, given), free, t.want.Count, given), now)
}

// emptiest leaves out the GPUs of which others use the most memory, as far as enough remain.
func (t *takeCall) emptiest(candidates []int) []int {
	taken := func(gpu int) uint64 { return t.want.Taken[gpu] }
	levels := make([]uint64, len(candidates))
	for i, g := range candidates {
		levels[i] = taken(g)
	}
	slices.Sort(levels)
	return slices.DeleteFunc(candidates, func(g int) bool { return taken(g) > levels[t.want.Count-1] })
}

// given returns the start of each GPU's last lease, by index, and 0 for none.
func (s slots) given(gpus int) []int64 {
	list := make([]int64, gpus)
	for _, o := range s {
		if o.record != nil {
			list[o.gpu] = o.record.since.UnixMilli()
		}
	}
	return list
}

// spread leaves out GPUs if one is requested and others are free: GPUs with a last holder
// of the same step, and the GPU that was leased last. Otherwise the links could send all
// runs of a step to one GPU, and a program that crashes could not be told from a GPU that
// crashes it.
func (t *takeCall) spread(s slots, candidates []int, given []int64) []int {
	if t.want.Count > 1 {
		return candidates
	}
	newest := slices.Max(given)
	others := without(candidates, func(g int) bool { return given[g] > 0 && given[g] == newest })
	return without(others, func(g int) bool {
		return t.holder.stepHash != "" && slices.ContainsFunc(s, func(o slot) bool {
			return o.gpu == g && o.record != nil && o.record.stepHash == t.holder.stepHash
		})
	})
}

// without returns the GPUs for which leaveOut is false, or all of them if it is true for all.
func without(gpus []int, leaveOut func(gpu int) bool) []int {
	if rest := slices.DeleteFunc(slices.Clone(gpus), leaveOut); len(rest) > 0 {
		return rest
	}
	return gpus
}

// avoids reports whether a run of the same step had a fault on the GPU.
func (t *takeCall) avoids(gpu int) bool {
	return t.holder.stepHash != "" && slices.Contains(t.want.Avoid[gpu], t.holder.stepHash)
}

// grant writes the lease first, and then data that may be lost.
func (t *takeCall) grant(s slots, gpus []int, now time.Time) ([]int, error) {
	r := t.holder
	r.since, r.called, r.gpus = now, now, len(gpus)
	held, err := t.write(s, r, gpus, now)
	if err != nil {
		return nil, err
	}
	held += t.endDead(s, now)
	t.count(t.dir, func(n *Counters) { n.Granted, n.HeldMS = n.Granted+1, n.HeldMS+held })
	return gpus, nil
}

func (t *takeCall) giveUp(s slots, now time.Time) error {
	held := t.endDead(s, now)
	if held > 0 {
		t.count(t.dir, func(n *Counters) { n.HeldMS += held })
	}
	why := &Refusal{Reason: Busy, Kind: t.holder.kind, Count: t.want.Count, Of: t.named(t.want.Of),
		Total: len(t.GPUs), At: now, Excluded: t.excludedText(t.want), label: t.Label}
	states := t.states(s)
	for _, g := range t.allowed {
		why.States = append(why.States, states[g])
	}
	why.indexes = t.allowed
	return why
}

// named returns the names of GPUs, and nil for nil.
func (l Leases) named(gpus []int) (list []string) {
	for _, g := range gpus {
		list = append(list, l.GPUs[g])
	}
	return list
}

// splitReady returns the free GPUs that can be leased now, and a text about the others.
func (t *takeCall) splitReady(free []int) (ready []int, others string) {
	if t.want.Unready == nil {
		return free, ""
	}
	var texts []string
	for _, g := range free {
		why := t.want.Unready(g)
		if why == "" {
			ready = append(ready, g)
		} else if len(texts) < maxHolders {
			texts = append(texts, "GPU "+t.labelOf(g)+" "+why)
		}
	}
	return ready, strings.Join(texts, ", ")
}

// labelOf returns a GPU's name for texts.
func (l Leases) labelOf(gpu int) string {
	if l.Label != nil {
		return l.Label(gpu)
	}
	return strconv.Itoa(gpu)
}

// excludedText lists the allowed GPUs that are excluded or missing, and why.
func (l Leases) excludedText(w Want) string {
	var texts []string
	for _, g := range slices.Sorted(maps.Keys(w.Excluded)) {
		if w.Of == nil || slices.Contains(w.Of, g) {
			texts = append(texts, "GPU "+l.labelOf(g)+" "+w.Excluded[g])
		}
	}
	if w.Of == nil {
		for _, name := range l.Missing {
			texts = append(texts, "GPU "+name+" is missing")
		}
	}
	if len(texts) > maxHolders {
		texts = append(texts[:maxHolders], "and others")
	}
	return strings.Join(texts, ", ")
}

func millis(d time.Duration) uint64 { return uint64(max(0, d.Milliseconds())) }

// callingProcess returns the process that leases.
func (l Leases) callingProcess(pid int) (process, error) {
	self, alive, err := l.process(pid)
	if err == nil && !alive {
		err = errors.New("it has ended")
	}
	if err != nil {
		return self, fmt.Errorf("cannot lease GPUs to process %d: %w", pid, err)
	}
	return self, nil
}

func (l Leases) checkCall(c Call) error {
	if err := l.checkNames(); err != nil {
		return err
	}
	if c.Container == "" || c.Cgroup == "" || c.PID < 1 {
		return errors.New("cannot lease GPUs: the call names no container, cgroup or process")
	}
	if c.PidFile != "" && !filepath.IsAbs(c.PidFile) {
		return fmt.Errorf("cannot lease GPUs to container %s: its pid file %s is not an absolute path",
			c.Container, c.PidFile)
	}
	return nil
}

// missingPidFile returns the error for a container with an end that could not be seen.
func missingPidFile(c Call) error {
	if c.OwnProcess {
		return fmt.Errorf("cannot lease GPUs to container %s: runc is called without --pid-file, so "+
			"its end cannot be seen; run it with an engine that gives one, as Docker, Podman and containerd "+
			"do", c.Container)
	}
	return fmt.Errorf("cannot lease GPUs to container %s: runc is called without --pid-file, so the "+
		"end of its task cannot be seen", c.Container)
}

// candidates returns the requested GPUs, lowest first.
func (l Leases) candidates(w Want) (of []int, err error) {
	if w.Count < 1 {
		return nil, fmt.Errorf("cannot lease %d GPUs", w.Count)
	}
	if w.Of == nil {
		return l.all(), nil
	}
	of = slices.Clone(w.Of)
	slices.Sort(of)
	of = slices.Compact(of)
	return of, l.checkIndexes(of)
}

func (l Leases) all() []int {
	all := make([]int, len(l.GPUs))
	for i := range all {
		all[i] = i
	}
	return all
}

func (l Leases) checkIndexes(gpus []int) error {
	for _, g := range gpus {
		if g < 0 || g >= len(l.GPUs) {
			return fmt.Errorf("cannot lease GPU %d: this machine has %d", g, len(l.GPUs))
		}
	}
	return nil
}

package lease

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// slot holds one GPU: its open file, the content, and whether that is valid.
type slot struct {
	gpu    int
	name   string
	fd     int
	raw    []byte // the content without spaces; empty if no holder is recorded
	record *record
	verdict
	changed bool // record differs from the file
}

// slots holds several GPUs, in the order of their names.
type slots []slot

// lock opens the files of some GPUs, makes missing ones, and locks them in the order of
// their names, which is the same for all callers.
func (l Leases) lock(dir int, gpus []int) (locked slots, err error) {
	s := make(slots, 0, len(gpus))
	defer func() {
		if locked == nil {
			s.close()
		}
	}()
	for _, g := range gpus {
		s = append(s, slot{gpu: g, name: l.GPUs[g], fd: -1})
	}
	slices.SortFunc(s, func(a, b slot) int { return strings.Compare(a.name, b.name) })
	for i := range s {
		l.before("open", s[i].name)
		if s[i].fd, err = createFile(dir, s[i].name); err == nil {
			err = flock(s[i].fd, unix.LOCK_EX)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", l.path(s[i].name), err)
		}
	}
	return s, nil
}

func (l Leases) path(name string) string { return l.Dir + "/" + name }

// close releases the locks.
func (s slots) close() {
	for i := range s {
		if s[i].fd >= 0 {
			unix.Close(s[i].fd)
		}
	}
}

// read reads the content of the files and judges it.
func (l Leases) read(s slots, boot string, now time.Time) error {
	var room [recordSize + 1]byte
	for i := range s {
		data, err := pread(s[i].fd, room[:])
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", l.path(s[i].name), err)
		}
		s[i].raw = bytes.Clone(trim(data))
	}
	l.judgeAll(s, boot, now)
	return nil
}

func (l Leases) judgeAll(s slots, boot string, now time.Time) {
	for i := range s {
		if len(s[i].raw) == 0 {
			continue
		}
		// GPUs of one lease have the same record.
		if same := slices.IndexFunc(s[:i], func(o slot) bool { return bytes.Equal(o.raw, s[i].raw) }); same >= 0 {
			s[i].record, s[i].verdict = s[same].record, s[same].verdict
			continue
		}
		r, err := decodeRecord(s[i].raw)
		if newer, ok := errors.AsType[*rawjson.NewerError](err); ok {
			newer.File = l.path(s[i].name)
			s[i].verdict = verdict{live: true, doubt: newer.Error()}
			continue
		}
		if err != nil {
			s[i].verdict = verdict{live: true,
				doubt: fmt.Sprintf("%s is damaged: %v", l.path(s[i].name), err)}
			continue
		}
		s[i].record, s[i].verdict = r, l.judge(r, boot, now)
	}
}

// free returns the indexes of the free GPUs, lowest first.
func (s slots) free() []int {
	list := make([]int, 0, len(s))
	for _, o := range s {
		if !o.live {
			list = append(list, o.gpu)
		}
	}
	slices.Sort(list)
	return list
}

// state returns the state for users and metrics.
func (s slot) state(name string) State {
	st := State{GPU: name, Held: s.live, PID: s.init, Doubt: s.doubt}
	if r := s.record; r != nil {
		st.Kind, st.Container, st.Since, st.StepHash, st.Program = r.kind, r.container, r.since, r.stepHash, r.program
		st.Title = r.title
		if st.Kind == Container {
			st.Engine = engineOf(s.record.bundle)
		}
	}
	return st
}

// states returns states in the order of the unit's GPUs.
func (l Leases) states(s slots) []State {
	byGPU := slices.Clone(s)
	slices.SortFunc(byGPU, func(a, b slot) int { return cmp.Compare(a.gpu, b.gpu) })
	list := make([]State, 0, len(s))
	for _, one := range byGPU {
		st := one.state(l.GPUs[one.gpu])
		st.TaskEnded = st.Held && st.Doubt == "" && l.taskEnded(one.record)
		list = append(list, st)
	}
	return list
}

// write writes r to the files of all of some GPUs, or of none. Their files differ only
// while this process, which r names, exists. It returns how long the replaced dead leases
// were held, in milliseconds.
func (l Leases) write(s slots, r record, gpus []int, now time.Time) (held uint64, err error) {
	data, err := r.encode()
	if err != nil {
		return 0, err
	}
	for i := range s {
		if !slices.Contains(gpus, s[i].gpu) {
			continue
		}
		l.before("write", s[i].name)
		if err := pwrite(s[i].fd, data); err != nil {
			l.restore(s[:i+1])
			return 0, fmt.Errorf("cannot write %s: %w", l.path(s[i].name), err)
		}
		if s[i].newlyDead() {
			held += millis(now.Sub(s[i].record.since))
		}
		s[i].changed = true
	}
	return held, nil
}

// restore writes the previous content. If that fails too, the files are void as soon as
// this process ends, which it does.
func (l Leases) restore(s slots) {
	for i := range s {
		_ = pwrite(s[i].fd, pad(bytes.Clone(s[i].raw)))
	}
}

// newlyDead reports whether a lease is found dead for the first time.
func (s slot) newlyDead() bool { return s.record != nil && !s.live && s.record.phase != ended }

// endDead marks dead records, so that they need not be judged again. It returns how long
// they were held, in milliseconds.
func (l Leases) endDead(s slots, now time.Time) (held uint64) {
	for i := range s {
		if s[i].changed || !s[i].newlyDead() {
			continue
		}
		dead := *s[i].record
		dead.phase, dead.calls = ended, nil
		data, err := dead.encode()
		l.before("bury", s[i].name)
		if err == nil && pwrite(s[i].fd, data) == nil { // otherwise the next call does it
			held += millis(now.Sub(dead.since))
		}
	}
	return held
}

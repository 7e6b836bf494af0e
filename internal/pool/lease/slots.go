package lease

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// slot is one GPU: its open file, what is in it, and what that is worth.
type slot struct {
	gpu    int
	name   string
	fd     int
	raw    []byte // the content, less blanks; empty when nobody is known
	record *record
	verdict
	changed bool // record is no longer that of the file
}

// slots are those of some GPUs, in the order of their names.
type slots []slot

// lock opens the files of some GPUs, makes those that are not there, and locks
// them, in the one order that everybody keeps to.
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
		if s[i].fd, err = openFile(dir, s[i].name, true); err == nil {
			err = flock(s[i].fd, unix.LOCK_EX)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", l.path(s[i].name), err)
		}
	}
	return s, nil
}

func (l Leases) path(name string) string { return l.Dir + "/" + name }

// close gives up the locks.
func (s slots) close() {
	for i := range s {
		if s[i].fd >= 0 {
			unix.Close(s[i].fd)
		}
	}
}

// read fills in what is in the files, and what it is worth now.
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
		if err != nil {
			s[i].verdict = verdict{live: true, doubt: fmt.Sprintf("%s is damaged: %v; when no task uses this GPU, run: juju run <unit> gpu-release gpu=%s force=true", l.path(s[i].name), err, l.GPUs[s[i].gpu])}
			continue
		}
		s[i].record, s[i].verdict = r, l.judge(r, boot, now)
	}
}

// free are the indexes of the GPUs that nobody holds, lowest first.
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

// state is what users and metrics see.
func (s slot) state(name string) State {
	st := State{GPU: name, Held: s.live, PID: s.init, Doubt: s.doubt}
	if s.record != nil {
		st.Kind, st.Container, st.Since, st.Like = s.record.kind, s.record.container, s.record.since, s.record.like
		if st.Kind == Container {
			st.Engine = engine(s.record.bundle)
		}
	}
	return st
}

// states are in the order of the unit's GPUs.
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

// write makes r the record of some of the GPUs, of all or of none: their files
// differ only as long as this process, which r names, is there. It returns how
// long dead leases were held that r takes the place of, in milliseconds.
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
		if s[i].dying() {
			held += millis(now.Sub(s[i].record.since))
		}
		s[i].changed = true
	}
	return held, nil
}

// restore puts back what was there. Where that fails, too, what stays is void as
// soon as this process ends, and it does.
func (l Leases) restore(s slots) {
	for i := range s {
		_ = pwrite(s[i].fd, pad(bytes.Clone(s[i].raw)))
	}
}

// dying tells whether a lease is found dead for the first time.
func (s slot) dying() bool { return s.record != nil && !s.live && s.record.phase != ended }

// bury marks records that are found dead, so that nobody has to judge them
// again, and returns how long they were held, in milliseconds.
func (l Leases) bury(s slots, now time.Time) (held uint64) {
	for i := range s {
		if s[i].changed || !s[i].dying() {
			continue
		}
		dead := *s[i].record
		dead.phase, dead.calls = ended, nil
		data, err := dead.encode()
		l.before("bury", s[i].name)
		if err == nil && pwrite(s[i].fd, data) == nil { // else the next call does it
			held += millis(now.Sub(dead.since))
		}
	}
	return held
}

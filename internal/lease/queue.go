package lease

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/oci/rawjson"
)

// pollEvery is how often a waiter looks whether it may lease.
const pollEvery = 200 * time.Millisecond

// ticket is the place of one waiter in the queue: a file whose lock it holds, so
// that its place is void with its process. Tickets come and go only while the
// GPUs are locked; the lowest number is the first.
type ticket struct {
	queue int // the directory
	fd    int
	name  string
}

func (t *ticket) close() {
	if t != nil {
		unix.Close(t.queue)
		if t.fd >= 0 {
			unix.Close(t.fd)
		}
	}
}

// openQueue opens the directory of tickets, -1 where there is none.
func openQueue(dir int) (int, error) {
	fd, err := unix.Openat(dir, queueName, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, nil
	}
	return fd, err
}

// queued are the names of the tickets whose waiters are there, the first first.
// With the GPUs locked it removes those of others, except own.
func (l Leases) queued(queue int, own string, locked bool) (live []string, err error) {
	list, err := names(queue)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", l.path(queueName), err)
	}
	slices.Sort(list)
	for _, name := range list {
		if name == own || !isTicket(name) {
			continue
		}
		waits, err := taken(queue, name)
		switch {
		case errors.Is(err, unix.ENOENT): // it left
		case err != nil:
			return nil, fmt.Errorf("cannot look at %s/%s: %w", l.path(queueName), name, err)
		case waits:
			live = append(live, name)
		case locked:
			l.before("remove ticket", name)
			_ = unix.Unlinkat(queue, name, 0) // who comes next tries again
		}
	}
	return live, nil
}

// taken tells whether somebody holds the lock of a ticket. It asks for a shared
// one, so that two who ask don't take each other for the waiter.
func taken(queue int, name string) (bool, error) {
	fd, err := openFile(queue, name, false)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

const ticketDigits = 20

func isTicket(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return len(name) == ticketDigits && err == nil
}

// ahead are the tickets of those who come before t, or all for one without.
func (l Leases) ahead(dir int, t *ticket, locked bool) ([]string, error) {
	if t != nil {
		live, err := l.queued(t.queue, t.name, locked)
		return slices.DeleteFunc(live, func(name string) bool { return name > t.name }), err
	}
	queue, err := openQueue(dir)
	if queue < 0 || err != nil {
		return nil, err
	}
	defer unix.Close(queue)
	return l.queued(queue, "", locked)
}

// join goes to the end of the queue. The GPUs are locked.
func (l Leases) join(dir int, w Waiter) (joined *ticket, err error) {
	l.before("mkdir", queueName)
	if err := unix.Mkdirat(dir, queueName, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("cannot make %s: %w", l.path(queueName), err)
	}
	queue, err := openQueue(dir)
	if err == nil && queue < 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", l.path(queueName), err)
	}
	t := &ticket{queue: queue, fd: -1}
	defer func() {
		if joined == nil {
			t.close()
		}
	}()
	if err := l.number(t, w); err != nil {
		return nil, fmt.Errorf("cannot queue at %s/%s: %w", l.path(queueName), t.name, err)
	}
	return t, nil
}

// number makes the ticket's file, the last of all.
func (l Leases) number(t *ticket, w Waiter) error {
	list, err := names(t.queue)
	if err != nil {
		return err
	}
	var last uint64
	for _, name := range list {
		if isTicket(name) {
			n, _ := strconv.ParseUint(name, 10, 64) // isTicket did it, too
			last = max(last, n)
		}
	}
	t.name = fmt.Sprintf("%0*d", ticketDigits, last+1)
	l.before("make ticket", t.name)
	t.fd, err = unix.Openat(t.queue, t.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	l.before("lock ticket", t.name)
	if err := flock(t.fd, unix.LOCK_EX); err != nil {
		return err
	}
	l.before("write ticket", t.name)
	return pwrite(t.fd, w.appendTo(nil))
}

// leave gives up the place. A ticket that stays is void when this process ends.
func (l Leases) leave(t *ticket) {
	if t != nil {
		l.before("leave", t.name)
		_ = unix.Unlinkat(t.queue, t.name, 0)
	}
}

func (w Waiter) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"container":`...), w.Container)
	out = strconv.AppendInt(append(out, `,"pid":`...), int64(w.PID), 10)
	out = strconv.AppendInt(append(out, `,"count":`...), int64(w.Count), 10)
	if w.Of != nil {
		out = rawjson.AppendStrings(append(out, `,"of":`...), w.Of)
	}
	out = strconv.AppendInt(append(out, `,"since":`...), w.Since.UnixMilli(), 10)
	out = strconv.AppendInt(append(out, `,"deadline":`...), w.Deadline.UnixMilli(), 10)
	return append(out, "}\n"...)
}

func decodeWaiter(data []byte) (w Waiter, err error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return w, err
	}
	f := fields{v: doc.Root()}
	w = Waiter{Container: f.text("container"), PID: f.number("pid"), Count: f.number("count"), Since: f.time("since"), Deadline: f.time("deadline")}
	of, err := f.v.Strings("of")
	f.keep(err)
	w.Of = of
	if f.err == nil && w.Container == "" {
		f.err = errors.New("it names no container")
	}
	return w, f.err
}

// waiters are those in the queue. One that is just writing its ticket is left out.
func (l Leases) waiters(dir int) (list []Waiter, err error) {
	queue, err := openQueue(dir)
	if queue < 0 || err != nil {
		return nil, err
	}
	defer unix.Close(queue)
	live, err := l.queued(queue, "", false)
	if err != nil {
		return nil, err
	}
	for _, name := range live {
		text, err := readAll(l.path(queueName) + "/" + name)
		if err != nil {
			continue // it left
		}
		if w, err := decodeWaiter([]byte(text)); err == nil {
			list = append(list, w)
		}
	}
	return list, nil
}

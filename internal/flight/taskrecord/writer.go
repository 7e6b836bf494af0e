package taskrecord

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Writer appends to the record of a task that runs. It is not safe for concurrent use.
type Writer struct {
	store  Store
	handle string
	file   *os.File
	size   int64
	rows   rows
	full   bool // the event is written
}

// Begin begins a record.
func (s Store) Begin(h Head) (*Writer, error) {
	if !IsName(h.Handle) {
		return nil, fmt.Errorf("cannot record %q: it is not the name of a task, run or container", h.Handle)
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_APPEND | unix.O_NOFOLLOW
	f, err := os.OpenFile(s.path(h.Handle, running), flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot begin the record of a task: %w", err)
	}
	w := &Writer{store: s, handle: h.Handle, file: f}
	if err := w.write(newHead(h)); err != nil {
		return nil, errors.Join(err, w.Close(), os.Remove(f.Name()))
	}
	return w, nil
}

// Resume continues the record of a task that still runs, after its last valid part.
func (s Store) Resume(handle string) (*Writer, Record, error) {
	path := s.path(handle, running)
	data, err := readFile(path)
	if err != nil {
		return nil, Record{}, err
	}
	r, valid, err := decodeValid(data)
	if err != nil {
		return nil, r, fmt.Errorf("cannot continue %s: %w", path, err)
	}
	f, err := os.OpenFile(path, unix.O_WRONLY|unix.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, r, err
	}
	if err := f.Truncate(int64(valid)); err != nil {
		f.Close()
		return nil, r, err
	}
	r.Damaged = false
	w := &Writer{store: s, handle: handle, file: f, size: int64(valid)}
	w.rows.machine = len(r.Machine)
	for _, gpu := range r.GPUs {
		w.rows.gpu += len(gpu)
	}
	w.full = slices.ContainsFunc(r.Events, func(e Event) bool { return e.Kind == Full })
	return w, r, nil
}

// write appends a part. It removes the bytes of a part that a full disk leaves, because
// readers stop there.
func (w *Writer) write(p part) error {
	data, err := p.encode()
	if err != nil {
		return fmt.Errorf("cannot record a task: %w", err)
	}
	if _, err := w.file.Write(data); err != nil {
		return errors.Join(fmt.Errorf("cannot record a task: %w", err), w.file.Truncate(w.size))
	}
	w.size += int64(len(data))
	return nil
}

// Samples appends samples of the machine, or of a GPU with its name. A record that is full of
// them keeps its events and its end only. It can be full for GPUs alone.
func (w *Writer) Samples(gpu string, samples []Sample) error {
	if len(samples) == 0 {
		return nil
	}
	if w.size > MaxRecord || !w.rows.add(gpu, len(samples)) {
		if w.full {
			return nil
		}
		w.full = true
		return w.Event(Event{At: time.UnixMilli(samples[0].At).UTC(), Kind: Full})
	}
	return w.write(newSamples(gpu, samples))
}

// Head replaces the head, when the GPUs of the task are known.
func (w *Writer) Head(h Head) error { return w.write(newHead(h)) }

// Event appends an event.
func (w *Writer) Event(e Event) error { return w.write(part{Event: &e}) }

// Evidence appends all evidence of the task until now. A full record keeps it in its end only.
func (w *Writer) Evidence(e Evidence) error {
	if w.size > MaxRecord {
		return nil
	}
	return w.write(part{Evidence: &e})
}

// End appends the end, and closes and renames the record. It renames it also if the end
// cannot be written: readers then have its result, and Prune can remove it.
func (w *Writer) End(e End) error {
	err := w.write(part{End: &e})
	if err == nil {
		err = w.file.Sync()
	}
	return errors.Join(err, w.Close(), w.store.rename(w.handle, &e))
}

// Amend adds an event to a record that ended, and replaces its end.
func (s Store) Amend(handle string, e Event, end End) error {
	f, err := s.Find(handle)
	if err != nil {
		return err
	}
	if err := os.Rename(f.path, s.path(handle, running)); err != nil {
		return fmt.Errorf("cannot amend the record of a task: %w", err)
	}
	w, _, err := s.Resume(handle)
	if err != nil {
		return errors.Join(err, s.rename(handle, &end))
	}
	return errors.Join(w.Event(e), w.End(end))
}

// Close closes the file of a record that is continued later.
func (w *Writer) Close() error { return w.file.Close() }

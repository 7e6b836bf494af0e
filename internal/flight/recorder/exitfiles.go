package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// exitFiles keeps the exit statuses of the files in which engines write them, and nothing else:
// Docker's has the environment, too. Podman removes each file 0.1 s after it (podman container
// cleanup), and Docker those of containers with --rm. The next look of the recorder is too late,
// so each file is read when it changes.
type exitFiles struct {
	root     host.Root
	mu       sync.Mutex
	inotify  int             // its descriptor, with events
	events   *os.File        // nil before the first file
	watches  map[string]int  // by folder
	statuses map[string]*int // by path, nil until its file has one
}

// await keeps the next status of a file. It forgets the status of an earlier run.
func (e *exitFiles) await(file string) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.events == nil {
		if e.inotify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
			return fmt.Errorf("cannot watch %s for an exit status: %w", file, err)
		}
		e.events = os.NewFile(uintptr(e.inotify), "inotify")
		e.watches, e.statuses = map[string]int{}, map[string]*int{}
		go e.read(e.events)
	}
	e.statuses[file] = nil
	// No event for each line of a log, which Docker has in the same folder.
	watch, err := unix.InotifyAddWatch(e.inotify, e.root.Path(path.Dir(file)), unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE)
	if errors.Is(err, fs.ErrNotExist) { // the engine may have other folders
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot watch %s for an exit status: %w", file, err)
	}
	e.watches[path.Dir(file)] = watch
	return nil
}

// read reads all awaited files, which are few, after each change, until events is closed.
func (e *exitFiles) read(events *os.File) {
	buffer := make([]byte, 4096)
	for {
		if _, err := events.Read(buffer); err != nil {
			return
		}
		e.mu.Lock()
		for file := range e.statuses {
			if status, err := readExitFile(e.root, file); err == nil {
				e.statuses[file] = &status
			}
		}
		e.mu.Unlock()
	}
}

// last returns the status of a file, or its last one if it has none now.
func (e *exitFiles) last(file string) (*int, error) {
	status, err := readExitFile(e.root, file)
	if err == nil {
		return &status, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept := e.statuses[file]; kept != nil {
		return kept, nil
	}
	return nil, err
}

// forget drops the status of a file.
func (e *exitFiles) forget(file string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, awaited := e.statuses[file]; !awaited {
		return nil
	}
	delete(e.statuses, file)
	for other := range e.statuses {
		if path.Dir(other) == path.Dir(file) {
			return nil
		}
	}
	watch, watched := e.watches[path.Dir(file)]
	delete(e.watches, path.Dir(file))
	if !watched {
		return nil
	}
	if _, err := unix.InotifyRmWatch(e.inotify, uint32(watch)); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cannot end the watch of %s: %w", file, err)
	}
	return nil // also if its folder is gone
}

func (e *exitFiles) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.events == nil {
		return nil
	}
	return e.events.Close()
}

package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// exitFiles keeps the exit statuses of the files in which engines write them, and nothing else:
// Docker's has the environment, too. Podman removes each file 0.1 s after it (podman container
// cleanup), and Docker those of containers with --rm. The next look of the recorder is too late,
// so each file is read when it changes.
type exitFiles struct {
	root     host.Root
	mu       sync.Mutex
	watcher  *fsnotify.Watcher
	statuses map[string]*int // by path, nil until its file has one
}

// await keeps the next status of a file. It forgets the status of an earlier run.
func (e *exitFiles) await(file string) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watcher == nil {
		if e.watcher, err = fsnotify.NewWatcher(); err != nil {
			e.watcher = nil
			return fmt.Errorf("cannot watch %s for an exit status: %w", file, err)
		}
		e.statuses = map[string]*int{}
		go e.read(e.watcher)
	}
	e.statuses[file] = nil
	err = e.watcher.Add(e.root.Path(path.Dir(file)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the engine may have other folders
		return fmt.Errorf("cannot watch %s for an exit status: %w", file, err)
	}
	return nil
}

// read reads the awaited files that change until the watcher is closed.
func (e *exitFiles) read(w *fsnotify.Watcher) {
	for {
		select {
		case event, open := <-w.Events:
			if !open {
				return
			}
			e.note(event.Name)
		case _, open := <-w.Errors: // the next look tries the file itself
			if !open {
				return
			}
		}
	}
}

func (e *exitFiles) note(changed string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for file := range e.statuses {
		if e.root.Path(file) == changed {
			if status, err := readExitFile(e.root, file); err == nil {
				e.statuses[file] = &status
			}
		}
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
	err := e.watcher.Remove(e.root.Path(path.Dir(file)))
	if errors.Is(err, fsnotify.ErrNonExistentWatch) { // its folder is gone
		return nil
	}
	return err
}

func (e *exitFiles) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Close()
}

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

// exitFiles keeps the texts of the files in which engines write exit statuses. Podman removes
// each file 0.1 s after it (podman container cleanup), and Docker those of containers with
// --rm. The next look of the recorder is too late, so each file is read when it changes.
type exitFiles struct {
	root    host.Root
	mu      sync.Mutex
	watcher *fsnotify.Watcher
	texts   map[string]string // by path, "" until it changes
}

// await keeps the next texts of a file. It forgets those of an earlier run.
func (e *exitFiles) await(file string) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watcher == nil {
		if e.watcher, err = fsnotify.NewWatcher(); err != nil {
			e.watcher = nil
			return fmt.Errorf("cannot watch %s for an exit status: %w", file, err)
		}
		e.texts = map[string]string{}
		go e.read(e.watcher)
	}
	e.texts[file] = ""
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
	for file := range e.texts {
		if e.root.Path(file) == changed {
			if text, err := e.root.ReadText(file); err == nil && text != "" {
				e.texts[file] = text
			}
		}
	}
}

// last returns the text of a file, or its last one if it is gone.
func (e *exitFiles) last(file string) (string, error) {
	text, err := e.root.ReadText(file)
	if err == nil {
		return text, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept := e.texts[file]; kept != "" {
		return kept, nil
	}
	return "", err
}

// forget drops the text of a file.
func (e *exitFiles) forget(file string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, awaited := e.texts[file]; !awaited {
		return nil
	}
	delete(e.texts, file)
	for other := range e.texts {
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

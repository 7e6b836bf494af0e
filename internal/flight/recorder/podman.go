package recorder

import (
	"fmt"
	"path"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// podmanExits names the folder in which conmon writes the exit status of a container of root's
// Podman. Podman reads and removes the file about 0.1 s later (podman container cleanup).
const podmanExits = "/run/libpod/exits"

// exits keeps the exit statuses of Podman's containers. It reads each file when it appears,
// because the next look of the recorder is too late.
type exits struct {
	root    host.Root
	mu      sync.Mutex
	watcher *fsnotify.Watcher
	texts   map[string]string // by the id of an awaited container, "" until it ends
}

// await keeps the next exit status of a container. It replaces that of an earlier run.
func (e *exits) await(id string) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watcher == nil {
		if e.watcher, err = fsnotify.NewWatcher(); err != nil {
			e.watcher = nil
			return fmt.Errorf("cannot watch %s for exit statuses: %w", podmanExits, err)
		}
		e.texts = map[string]string{}
		go e.read(e.watcher)
	}
	e.texts[id] = ""
	if err := e.watcher.Add(e.root.Path(podmanExits)); err != nil {
		return fmt.Errorf("cannot watch %s for exit statuses: %w", podmanExits, err)
	}
	return nil
}

// read reads the files of awaited containers until the watcher is closed.
func (e *exits) read(w *fsnotify.Watcher) {
	for {
		select {
		case event, open := <-w.Events:
			if !open {
				return
			}
			e.note(path.Base(event.Name))
		case _, open := <-w.Errors: // the next look tries the file itself
			if !open {
				return
			}
		}
	}
}

func (e *exits) note(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, awaited := e.texts[id]; awaited {
		if text, err := e.root.ReadText(path.Join(podmanExits, id)); err == nil && text != "" {
			e.texts[id] = text
		}
	}
}

// status returns the text with the exit status of a container, or an error if there is none.
func (e *exits) status(id string) (string, error) {
	e.mu.Lock()
	text := e.texts[id]
	e.mu.Unlock()
	if text != "" {
		return text, nil
	}
	return e.root.ReadText(path.Join(podmanExits, id))
}

// forget drops the status of a container.
func (e *exits) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.texts, id)
}

func (e *exits) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Close()
}

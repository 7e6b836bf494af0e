package gpu

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
)

const (
	// readTime is how long the next answer is waited for. A GPU in good health answers
	// within milliseconds.
	readTime = 5 * time.Second
	// readerTime is how long the process that reads them is: a hook has half a minute.
	readerTime = 3 * readTime
)

// readerCommand returns the command that runs ServeFiles in a process of its own; nil in a
// program that nobody waits for, which reads by itself.
func readerCommand() []string {
	exe, err := os.Executable()
	if err != nil || path.Base(exe) != wellknown.Dispatch {
		return nil
	}
	return []string{exe, "gpu", wellknown.ReadGPUFiles}
}

// readElsewhere reads files, and returns what came back in time, with the process that
// may hang now.
func readElsewhere(r host.Root, command, paths []string) (answers map[string]attribute, reader string) {
	if len(command) == 0 {
		return readFiles(r, paths), ""
	}
	answers, reader, err := askReader(r, command, paths)
	if err != nil { // it could not be started, as while this program is replaced
		return readFiles(r, paths), ""
	}
	return answers, reader
}

// askReader waits for the answer and not for the process, which can't end while one of
// the files hangs.
func askReader(r host.Root, command, paths []string) (answers map[string]attribute, reader string, err error) {
	in, err := json.Marshal(paths)
	if err != nil {
		return nil, "", err
	}
	line, pid, err := host.Answer(command, append(in, '\n'), readerTime)
	if err == nil && line != nil {
		err = json.Unmarshal(line, &answers)
	}
	return answers, processOf(r, strconv.Itoa(pid)), err
}

// ServeFiles reads the files that in names, and writes what came back in time.
func ServeFiles(r host.Root, in io.Reader, out io.Writer) error {
	var paths []string
	if err := json.NewDecoder(in).Decode(&paths); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(readFiles(r, paths))
}

// reading has a channel for each folder in which this process reads, which is closed
// when the reading ends. It is the whole process's, as the threads are that hang.
var reading = struct {
	sync.Mutex
	folders map[string]chan struct{}
}{folders: map[string]chan struct{}{}}

// readFiles reads folder by folder, side by side: a folder is mostly a device, and of one
// that hangs a single thread hangs.
func readFiles(r host.Root, paths []string) map[string]attribute {
	type answer struct {
		path string
		attribute
	}
	late := make(chan struct{})
	timer := time.AfterFunc(readTime, func() { close(late) })
	defer timer.Stop()
	folders := map[string][]string{}
	for _, p := range paths {
		folders[path.Dir(p)] = append(folders[path.Dir(p)], p)
	}
	come := make(chan answer, len(paths))
	for dir, of := range folders {
		go func() {
			end := beginFolder(r.Path(dir), late)
			if end == nil {
				return
			}
			defer end()
			for _, p := range of {
				a := answer{path: p}
				text, err := readNow(r, p)
				if a.Text = text; err != nil && !errors.As(err, &a.Errno) {
					a.Errno = unix.EIO
				}
				come <- a
			}
		}()
	}
	answers := map[string]attribute{}
	for range paths {
		select {
		case a := <-come:
			answers[a.path] = a.attribute
			if timer.Stop() { // a busy machine is slow with all files, and hangs with none
				timer.Reset(readTime)
			}
		case <-late:
			return answers
		}
	}
	return answers
}

// beginFolder waits until nobody of this process reads in a folder; nil where that does
// not end in time.
func beginFolder(dir string, late <-chan struct{}) (end func()) {
	for {
		reading.Lock()
		ended := reading.folders[dir]
		if ended == nil {
			ended = make(chan struct{})
			reading.folders[dir] = ended
			reading.Unlock()
			return func() {
				reading.Lock()
				delete(reading.folders, dir)
				reading.Unlock()
				close(ended)
			}
		}
		reading.Unlock()
		select {
		case <-ended:
		case <-late:
			return nil
		}
	}
}

package gpu

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
)

// maxFile bounds the size of any file in sysfs or procfs. sysfs attributes end at a page (4
// KiB); /proc/devices has a few hundred lines.
const maxFile = 64 << 10

// read returns a small file that does not change while it exists.
func read(r files, p string) (string, error) {
	if r.known == nil || !strings.HasPrefix(p, "/sys/") {
		return readNow(r.Root, p)
	}
	return r.known.read(p)
}

// readNow reads a file directly. Discovery reads hundreds of files of a few bytes; plain
// system calls avoid os.File's poller registration, which sysfs files accept.
func readNow(r host.Root, p string) (string, error) {
	full := r.Path(p)
	fd, err := unix.Open(full, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: full, Err: err}
	}
	defer unix.Close(fd)
	var page [4096]byte
	var text []byte
	for len(text) < maxFile {
		n, err := unix.Read(fd, page[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", &os.PathError{Op: "read", Path: full, Err: err}
		}
		if n <= 0 {
			break
		}
		text = append(text, page[:n]...)
	}
	return string(text), nil
}

// changing returns the value of a file that may change while it exists.
func changing(r files, p string) string {
	if r.known == nil {
		return value(r, p)
	}
	text, err := r.known.readChanging(p)
	if err != nil {
		return ""
	}
	return trim(text)
}

// value reads a file with one value, "" if it cannot be read.
func value(r files, p string) string {
	text, err := read(r, p)
	if err != nil {
		return ""
	}
	return trim(text)
}

// trim removes white space and everything after the first zero byte, because some files of
// sysfs are padded with zero bytes to a page.
func trim(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return strings.TrimSpace(strings.ToValidUTF8(text, ""))
}

// hex parses a PCI id of sysfs: "0x1002", or without the 0x.
func hex(text string, bits int) (uint64, bool) {
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, bits)
	return v, err == nil
}

// target returns the target of the link p as a machine path, without following further
// links; "" if p is not a link.
func target(r host.Root, p string) string {
	to, err := r.Readlink(p)
	if err != nil || to == "" {
		return ""
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(p), to)
	}
	return path.Clean(to)
}

const (
	// readTime is the longest wait for the next answer. A healthy GPU answers within
	// milliseconds.
	readTime = 5 * time.Second
	// readerTime is the longest wait for the reading process: a hook has half a minute.
	readerTime = 3 * readTime
)

// readerCommand returns the command that runs ServeFiles in a separate process; nil in a
// program that may block, which reads by itself.
func readerCommand() []string {
	exe, err := os.Executable()
	if err != nil || !wellknown.ServesCommands(exe) {
		return nil
	}
	return []string{exe, "gpu", wellknown.ReadGPUFiles}
}

// readElsewhere reads files, and returns the results in time and the process that may hang
// now.
func readElsewhere(r host.Root, command, paths []string) (answers map[string]attribute, reader string) {
	if len(command) == 0 {
		return readFiles(r, paths), ""
	}
	answers, reader, err := queryReader(r, command, paths)
	if err != nil { // it could not be started, for example while this program is being replaced
		return readFiles(r, paths), ""
	}
	return answers, reader
}

// queryReader waits for the answer, not for the process, which cannot exit while one of the
// files hangs.
func queryReader(r host.Root, command, paths []string) (answers map[string]attribute, reader string, err error) {
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

// ServeFiles reads the files named by in, and writes the results in time.
func ServeFiles(r host.Root, in io.Reader, out io.Writer) error {
	var paths []string
	if err := json.NewDecoder(in).Decode(&paths); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(readFiles(r, paths))
}

// folders has the folders that this process reads. It is global, as are the threads that
// hang.
var folders deadline.Group[string, struct{}]

// readFiles reads folders in parallel. A folder usually belongs to one device, so a hanging
// device blocks one thread.
func readFiles(r host.Root, paths []string) map[string]attribute {
	type answer struct {
		path string
		attribute
	}
	late := make(chan struct{})
	timer := time.AfterFunc(readTime, func() { close(late) })
	defer timer.Stop()
	byFolder := map[string][]string{}
	for _, p := range paths {
		byFolder[path.Dir(p)] = append(byFolder[path.Dir(p)], p)
	}
	come := make(chan answer, len(paths))
	for dir, of := range byFolder {
		read := func() (none struct{}) {
			for _, p := range of {
				a := answer{path: p}
				text, err := readNow(r, p)
				if a.Text = text; err != nil && !errors.As(err, &a.Errno) {
					a.Errno = unix.EIO
				}
				come <- a
			}
			return none
		}
		go func() {
			for ended := true; ended; {
				other, run := folders.Join(r.Path(dir), read)
				if run != nil {
					run()
					return
				}
				_, ended = deadline.Wait(other, late)
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

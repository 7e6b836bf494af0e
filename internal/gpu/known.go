package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/procfile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// knownFile stores the identity of the machine's GPUs until the next boot.
const knownFile = wellknown.RunDir + "/gpu-attributes.json"

// errHangs reports a file without a value, because the kernel does not return from reading
// it.
var errHangs = errors.New("reading it does not end")

// errUnread reports a file without a value yet, because another process must read it first.
var errUnread = errors.New("not read yet")

// files gives discovery the files of the machine. A process that reads a file of a hanging
// GPU cannot exit before the kernel returns, and Juju waits for the process of a hook. So
// on a real machine discovery uses the previous readings, and another process reads new
// files.
type files struct {
	host.Root
	known *known // nil: files are read as they are
}

// known holds the content of files that discovery requires. None of these files changes
// while it exists.
type known struct {
	root  host.Root
	Files map[string]attribute `json:"files"`

	fresh     map[string]bool // read by the reader of this process
	requested []string
	changed   bool
}

// attribute holds the content of one file.
type attribute struct {
	Inode  string     `json:"inode"` // identifies the file among files with the same name
	Text   string     `json:"text,omitempty"`
	Errno  unix.Errno `json:"errno,omitempty"`
	Reader string     `json:"reader,omitempty"` // the process with an unfinished reading
}

// withFiles repeats look until all requested files are read.
func withFiles(r host.Root, look func(files) error) error {
	if !r.Real() { // plain files, which cannot hang
		return look(files{Root: r})
	}
	return withKnown(r, readerCommand(), look)
}

// withKnown implements withFiles for a machine with files that may hang. The command reader
// reads new files, see readerCommand.
func withKnown(r host.Root, reader []string, look func(files) error) error {
	k := loadKnown(r)
	for {
		k.requested = nil
		err := look(files{r, k})
		if len(k.requested) == 0 {
			k.save()
			return err
		}
		k.store(readElsewhere(r, reader, k.requested))
	}
}

// attributesFile is disposable, because its content is read again.
var attributesFile = statefile.File[known]{Path: knownFile, Mode: 0o644, Disposable: true}

func loadKnown(r host.Root) *known {
	k, err := attributesFile.Read(r)
	if err != nil || k.Files == nil {
		k.Files = map[string]attribute{}
	}
	k.root, k.fresh = r, map[string]bool{}
	return &k
}

// save stores the readings for other processes. A process without write access, such as the
// exporter, reads again what root has not read.
func (k *known) save() {
	if !k.changed {
		return
	}
	maps.DeleteFunc(k.Files, func(p string, _ attribute) bool { return !k.root.Exists(p) })
	_ = attributesFile.Write(k.root, *k)
}

// read returns a file that does not change.
func (k *known) read(p string) (string, error) {
	of, err := fileOf(k.root, p)
	if err != nil {
		return "", err
	}
	switch a := k.Files[p]; {
	case a.Inode != of: // not yet read, or from another device
	case a.Text != "" || k.fresh[p] || a.Errno == 0 && a.Reader == "":
		return a.value()
	case a.Errno == unix.EPERM: // KFD returns it for foreign GPUs, before it accesses one
		return readNow(k.root, p)
	}
	return "", k.request(p)
}

// readChanging returns a file that may change. Its previous content is returned only while
// it hangs.
func (k *known) readChanging(p string) (string, error) {
	if of, err := fileOf(k.root, p); err != nil {
		return "", err
	} else if a := k.Files[p]; a.Inode == of && (k.fresh[p] || k.hangs(path.Dir(p))) {
		return a.value()
	}
	return "", k.request(p)
}

func (a attribute) value() (string, error) {
	switch {
	case a.Text != "":
		return a.Text, nil
	case a.Errno != 0:
		return "", a.Errno
	case a.Reader != "":
		return "", errHangs
	}
	return "", nil
}

// request marks a file for reading, unless a reading in its folder hangs already: one
// hanging process is enough.
func (k *known) request(p string) error {
	if k.hangs(path.Dir(p)) {
		return errHangs
	}
	k.requested = append(k.requested, p)
	return errUnread
}

func (k *known) hangs(dir string) bool {
	for p, a := range k.Files {
		if a.Reader != "" && path.Dir(p) == dir && processOf(k.root, a.Reader) == a.Reader {
			return true
		}
	}
	return false
}

// store saves the content of the requested files. A file without an answer hangs.
func (k *known) store(answers map[string]attribute, reader string) {
	for _, p := range k.requested {
		of, _ := fileOf(k.root, p)
		a, ok := answers[p]
		if !ok {
			a = attribute{Reader: cmp.Or(reader, "this process")}
			if was := k.Files[p]; was.Inode == of {
				a.Text = was.Text
			}
		}
		a.Inode = of
		if k.Files[p] != a {
			k.Files[p], k.changed = a, true
		}
		k.fresh[p] = true
	}
}

// fileOf identifies a file by its inode, which the kernel never reuses. Reading the inode
// does not involve the driver. The uevent of a PCI device contains the driver, which may
// change.
func fileOf(r host.Root, p string) (string, error) {
	st, err := r.Stat(p)
	if err != nil {
		return "", err
	}
	sys := st.Sys().(*syscall.Stat_t)
	of := fmt.Sprintf("%d:%d", sys.Dev, sys.Ino)
	if path.Base(p) == "uevent" {
		of += " " + path.Base(target(r, path.Join(path.Dir(p), "driver")))
	}
	return of, nil
}

// processOf identifies the running process of this name, "" if it has ended: process id and
// start time (proc_pid_stat(5)).
func processOf(r host.Root, name string) string {
	pid, _, _ := strings.Cut(name, " ")
	text, err := r.ReadText(path.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	stat, err := procfile.ParseStat(text)
	if err != nil {
		return ""
	}
	return fmt.Sprint(pid, " ", stat.Start)
}

// Attribute returns the value of a file in sysfs that does not change while it exists, ""
// if it cannot be read. It also returns if the device hangs.
func Attribute(r host.Root, p string) string { return Attributes(r, p)[p] }

// Attributes returns the values of several files by their paths, as Attribute does.
func Attributes(r host.Root, paths ...string) map[string]string {
	values := map[string]string{}
	_ = withFiles(r, func(f files) error {
		for _, p := range paths {
			values[p] = value(f, p)
		}
		return nil
	})
	return values
}

// Package sysfile reads attributes in sysfs repeatedly at the lowest cost: a descriptor is
// opened once and read from its start each time, which makes the driver answer again. It
// never writes, and opens only the given files.
package sysfile

import (
	"errors"
	"path"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// maxAttribute is the size of a page, the limit of sysfs attributes
// (Documentation/filesystems/sysfs.rst).
const maxAttribute = 4096

// Limit bounds the number of open descriptors of all sets together. Beyond it, files are
// opened and closed at each reading.
type Limit struct{ left atomic.Int64 }

// reserve leaves descriptors for sockets and other files.
const reserve = 256

// NewLimit returns a limit within the process's own.
func NewLimit() *Limit {
	l := &Limit{}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil && r.Cur > reserve {
		l.left.Store(int64(min(r.Cur, 1<<20)) - reserve)
	}
	return l
}

// File is one attribute in a Set.
type File struct {
	set    *Set
	path   string // as opened by this process
	base   string
	fd     int // -1: not open
	absent bool
}

// Set holds the files of one device. It must not be used by two goroutines at once.
type Set struct {
	root  host.Root
	limit *Limit
	files []*File
	at    *atomic.Pointer[string]
	page  [maxAttribute]byte
}

// NewSet returns an empty set of files below root. The set stores the name of the file that
// it reads in at, so that others can name the file of a reading that hangs.
func NewSet(root host.Root, limit *Limit, at *atomic.Pointer[string]) *Set {
	return &Set{root: root, limit: limit, at: at}
}

// File adds a file, which is opened when it is first read.
func (s *Set) File(p string) *File {
	f := &File{set: s, path: s.root.Path(p), base: path.Base(p), fd: -1}
	s.files = append(s.files, f)
	return f
}

// Base returns the last part of the name.
func (f *File) Base() string { return f.base }

// Close closes all descriptors and resets the absent files. The set may be used again.
func (s *Set) Close() {
	for _, f := range s.files {
		f.close()
		f.absent = false
	}
}

// Retry makes the next readings try absent files again.
func (s *Set) Retry() {
	for _, f := range s.files {
		f.absent = false
	}
}

func (f *File) close() {
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
		f.set.limit.left.Add(1)
	}
}

// Read returns the file's bytes, which are valid until the next Read in the set. An absent
// file is not tried again before Retry.
func (f *File) Read() ([]byte, error) {
	if f.absent {
		return nil, unix.ENOENT
	}
	f.set.at.Store(&f.base)
	if f.fd >= 0 {
		n, err := pread(f.fd, f.set.page[:])
		if err == nil {
			return f.set.page[:n], nil
		}
		if err != unix.ENODEV && err != unix.ESTALE {
			return nil, err
		}
		f.close() // the device's files were created again
	}
	return f.open()
}

func (f *File) open() ([]byte, error) {
	fd, err := openFile(f.path)
	if err != nil {
		f.absent = errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
		return nil, err
	}
	n, err := pread(fd, f.set.page[:])
	if err == unix.ESPIPE { // not a file: it can be read once
		n, err = retry(func() (int, error) { return unix.Read(fd, f.set.page[:]) })
	} else if err == nil && f.set.limit.left.Add(-1) >= 0 {
		f.fd = fd
		return f.set.page[:n], nil
	} else if err == nil {
		f.set.limit.left.Add(1)
	}
	unix.Close(fd)
	if err != nil {
		return nil, err
	}
	return f.set.page[:n], nil
}

func openFile(name string) (fd int, err error) {
	return retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
}

func pread(fd int, b []byte) (int, error) {
	return retry(func() (int, error) { return unix.Pread(fd, b, 0) })
}

// ReadOnce reads an attribute and closes it.
func ReadOnce(name string) ([]byte, error) {
	page := make([]byte, maxAttribute)
	n, err := ReadInto(name, page)
	return page[:n], err
}

// ReadInto reads an attribute into the caller's memory. It makes plain system calls,
// because os.File would register every file with the poller. One read returns a whole
// attribute of sysfs. Of a list in /proc or of a control group it returns a page: see Fill.
func ReadInto(name string, page []byte) (int, error) {
	fd, err := openFile(name)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := retry(func() (int, error) { return unix.Read(fd, page) })
	return max(0, n), err
}

// Fill is like ReadInto for a list. It reads until the end of the file or of page.
func Fill(name string, page []byte) (n int, err error) {
	fd, err := openFile(name)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for n < len(page) {
		more, err := retry(func() (int, error) { return unix.Read(fd, page[n:]) })
		if err != nil || more <= 0 {
			return n, err
		}
		n += more
	}
	return n, nil
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// ReadAll reads a file that may be longer than a page, up to max bytes.
func ReadAll(name string, max int) ([]byte, error) {
	fd, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var all []byte
	var page [maxAttribute]byte
	for len(all) < max {
		n, err := retry(func() (int, error) { return unix.Read(fd, page[:]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		all = append(all, page[:n]...)
	}
	return all, nil
}

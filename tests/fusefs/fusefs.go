// Package fusefs shows a folder through a FUSE file system with reads that hang or fail on
// request, as for a device with a driver that hangs: a process that reads such a file waits
// in state D, and no signal ends it.
//
// A test must end hangs before it waits for processes that may be in one.
package fusefs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The requests of FUSE that a read-only file system must answer (fuse.h in the kernel).
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opReadlink    = 5
	opOpen        = 14
	opRead        = 15
	opRelease     = 18
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opInterrupt   = 36
	opBatchForget = 42
)

const (
	headerIn   = 40
	directIO   = 1 // FOPEN_DIRECT_IO: each read is asked for
	maxRequest = 128 << 10
)

var order = binary.LittleEndian

// Mirror shows a folder in its own place, and answers readings as its device would.
type Mirror struct {
	fd    int
	from  string // if the files are
	mu    sync.Mutex
	paths []string // by node id - 1, below from
	hangs bool
	fails map[string]syscall.Errno // by the last part of the name
	kept  []uint64                 // readings that hang
}

// Missing returns why no test can have one here; empty when it can.
func Missing() string {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return "there is no /dev/fuse"
	}
	return ""
}

// New puts the folder dir on its own file system.
func New(t *testing.T, dir string) *Mirror {
	m := &Mirror{from: dir + ".files", paths: []string{"."}, fails: map[string]syscall.Errno{}}
	require.NoError(t, os.Rename(dir, m.from))
	require.NoError(t, os.Mkdir(dir, 0o755))
	var err error
	m.fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("gpu", dir, "fuse.gpu", unix.MS_NODEV|unix.MS_NOSUID,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", m.fd)))
	go m.serve()
	t.Cleanup(func() {
		m.Hang(false)
		require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return m
}

// Folder returns the folder with the files themselves, in which a test changes them.
func (m *Mirror) Folder() string { return m.from }

// Hang has all readings hang, or lets those go that do.
func (m *Mirror) Hang(hangs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hangs = hangs; !hangs {
		for _, unique := range m.kept {
			m.reply(unique, syscall.EIO, nil)
		}
		m.kept = nil
	}
}

// Fail has the files of these names fail.
func (m *Mirror) Fail(fails map[string]syscall.Errno) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = fails
}

func (m *Mirror) serve() {
	page := make([]byte, maxRequest)
	for {
		n, err := unix.Read(m.fd, page)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || n < headerIn {
			return // unmounted
		}
		op, unique, node := order.Uint32(page[4:]), order.Uint64(page[8:]), order.Uint64(page[16:])
		m.mu.Lock()
		m.answer(op, unique, node, page[headerIn:n])
		m.mu.Unlock()
	}
}

func (m *Mirror) answer(op uint32, unique, node uint64, body []byte) {
	p := m.paths[max(node, 1)-1]
	full := filepath.Join(m.from, p)
	switch op {
	case opForget, opBatchForget, opInterrupt:
	case opInit:
		m.reply(unique, 0, pack(uint32(7), uint32(31), uint32(0), uint32(0), uint32(0), uint32(maxRequest/2), uint32(1), [9]uint32{}))
	case opLookup:
		child := filepath.Join(p, string(bytes.TrimRight(body, "\x00")))
		st, errno := stat(filepath.Join(m.from, child))
		if errno != 0 {
			m.reply(unique, errno, nil)
			return
		}
		id := m.node(child)
		m.reply(unique, 0, append(pack(id, [3]uint64{}, [2]uint32{}), attributes(id, st)...))
	case opGetattr:
		st, errno := stat(full)
		m.reply(unique, errno, append(pack(uint64(0), uint64(0)), attributes(node, st)...))
	case opReadlink:
		to, _ := os.Readlink(full)
		m.reply(unique, 0, []byte(to))
	case opOpen, opOpendir:
		m.reply(unique, 0, pack(uint64(0), uint32(directIO), uint32(0)))
	case opRelease, opReleasedir, opFlush:
		m.reply(unique, 0, nil)
	case opRead:
		errno := m.fails[filepath.Base(p)]
		switch {
		case m.hangs:
			m.kept = append(m.kept, unique)
		case errno != 0:
			m.reply(unique, errno, nil)
		default:
			data, _ := os.ReadFile(full)
			m.reply(unique, 0, from(data, body))
		}
	case opReaddir:
		m.reply(unique, 0, m.entries(p, full, body))
	default:
		m.reply(unique, syscall.ENOSYS, nil)
	}
}

// node returns the number of a path, which is its inode.
func (m *Mirror) node(p string) uint64 {
	for i, have := range m.paths {
		if have == p {
			return uint64(i + 1)
		}
	}
	m.paths = append(m.paths, p)
	return uint64(len(m.paths))
}

func (m *Mirror) entries(p, full string, body []byte) []byte {
	all, _ := os.ReadDir(full)
	var out bytes.Buffer
	size := int(order.Uint32(body[16:]))
	for i, e := range all {
		if uint64(i) < order.Uint64(body[8:]) {
			continue
		}
		one := append(pack(m.node(filepath.Join(p, e.Name())), uint64(i+1), uint32(len(e.Name())), uint32(0)), e.Name()...)
		one = append(one, make([]byte, -len(one)&7)...)
		if out.Len()+len(one) > size {
			break
		}
		out.Write(one)
	}
	return out.Bytes()
}

// reply to a request that no one waits for any more fails, which is of no account.
func (m *Mirror) reply(unique uint64, errno syscall.Errno, body []byte) {
	if errno != 0 {
		body = nil
	}
	_, _ = unix.Write(m.fd, append(pack(uint32(16+len(body)), -int32(errno), unique), body...))
}

func stat(p string) (st unix.Stat_t, errno syscall.Errno) {
	err := unix.Lstat(p, &st)
	errors.As(err, &errno)
	return st, errno
}

// attributes returns struct fuse_attr.
func attributes(id uint64, st unix.Stat_t) []byte {
	return pack(id, uint64(st.Size), uint64(st.Blocks), [3]uint64{}, [3]uint32{}, st.Mode, uint32(st.Nlink), [5]uint32{})
}

// from returns the part of data that a read asks for.
func from(data, body []byte) []byte {
	at := min(order.Uint64(body[8:]), uint64(len(data)))
	return data[at:min(at+uint64(order.Uint32(body[16:])), uint64(len(data)))]
}

func pack(values ...any) []byte {
	var out bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&out, order, v); err != nil {
			panic(err) // a value without its own size
		}
	}
	return out.Bytes()
}

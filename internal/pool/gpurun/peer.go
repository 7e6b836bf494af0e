package gpurun

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// peer is the process and the user at the other end of a connection.
type peer struct {
	process lease.Process
	uid     uint32
	name    string // of the user
}

// peerOf identifies the process that made a connection, by the kernel's record of it.
func peerOf(c *net.UnixConn) (p peer, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return p, fmt.Errorf("cannot identify the caller: %w", err)
	}
	if cred.Pid < 1 {
		return p, errors.New("cannot identify the caller: this machine does not see its process")
	}
	p.uid, p.name = cred.Uid, nameOf(cred.Uid)
	if p.process, err = (lease.Leases{}).ProcessOf(int(cred.Pid)); err != nil {
		return p, fmt.Errorf("cannot identify the caller: %w", err)
	}
	// The process may have ended by now, and its number be another user's.
	return p, p.mayLease(p.process)
}

// mayLease returns an error if the process is another user's, or runs with another user's
// rights. Root may lease for all.
func (p peer) mayLease(target lease.Process) error {
	there, err := (lease.Leases{}).Alive(target)
	if err == nil && !there {
		err = fmt.Errorf("process %d has ended", target.PID)
	}
	if err != nil {
		return fmt.Errorf("cannot lease GPUs: %w", err)
	}
	ids, err := usersOf(target.PID)
	if err != nil {
		return fmt.Errorf("cannot lease GPUs: %w", err)
	}
	if p.uid != 0 && slices.ContainsFunc(ids, func(id uint32) bool { return id != p.uid }) {
		return fmt.Errorf("cannot lease GPUs for process %d: it is another user's", target.PID)
	}
	return nil
}

// usersOf returns the real, effective, saved and file system user of a process.
func usersOf(pid int) (ids []uint32, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	_, rest, _ := strings.Cut(string(text), "\nUid:")
	line, _, _ := strings.Cut(rest, "\n")
	for word := range strings.FieldsSeq(line) {
		id, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(id))
	}
	if len(ids) != 4 {
		return nil, fmt.Errorf("process %d has no users", pid)
	}
	return ids, nil
}

// seesNumbers reports whether process ids of the caller's are those of this program.
func (p peer) seesNumbers() bool {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return false
	}
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(p.process.PID) + "/ns/pid")
	return err == nil && own == theirs
}

// nameOf returns a user's name.
func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

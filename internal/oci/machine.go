package oci

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/oci/deadmount"
)

// machine is what the wrapper needs of the system and a test wants to replace:
// device nodes and execve need root, or can't be undone; and what must not be
// asked of a dead file system.
type machine struct {
	lstat func(path string, st *unix.Stat_t) error
	// What an engine without root needs.
	access   func(path string, mode uint32) error
	getxattr func(path, name string, dest []byte) (int, error)
	uidMap   func() ([]byte, error)
	engine   bool // called as another engine's runtime, not Concourse's

	mknod func(path string, mode uint32, dev int) error
	exec  func(path string, argv, env []string) error
	statx func(dirfd int, path string, flags, mask int, st *unix.Statx_t) error
	probe func(path string, limit time.Duration) string
	now   func() time.Time
	sleep func(time.Duration)
	euid  uint32
	self  string // this very program, for the loop guard
}

func realMachine() machine {
	return machine{
		lstat:    unix.Lstat,
		access:   unix.Access,
		getxattr: unix.Lgetxattr,
		uidMap:   func() ([]byte, error) { return os.ReadFile("/proc/self/uid_map") },
		mknod:    unix.Mknod,
		exec:     syscall.Exec,
		statx:    unix.Statx,
		probe:    deadmount.Ask,
		now:      time.Now,
		sleep:    time.Sleep,
		euid:     uint32(os.Geteuid()),
		self:     "/proc/self/exe",
	}
}

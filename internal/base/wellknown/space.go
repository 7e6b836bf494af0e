package wellknown

import (
	"math"

	"golang.org/x/sys/unix"
)

// Space holds the size and the free part of a file system.
type Space struct {
	Size, Free uint64 // bytes
	InodesFree uint64 // math.MaxUint64 if the file system makes inodes as needed
}

// SpaceOf returns the space that statfs(2) reports to users that are not root.
func SpaceOf(st unix.Statfs_t) Space {
	s := Space{Size: st.Blocks * uint64(st.Bsize), Free: st.Bavail * uint64(st.Bsize), InodesFree: st.Ffree}
	if st.Files == 0 {
		s.InodesFree = math.MaxUint64
	}
	return s
}

// A disk is full while programs still can write a little: Concourse makes volumes of many
// files, and each fails alone.
const (
	fullBytes  = 64 << 20
	fullSmall  = .05  // of a disk on which fullBytes is more
	fullShare  = .005 // of a large disk
	fullInodes = 16
)

// Full reports whether steps of builds fail on the disk.
func (s Space) Full() bool {
	size := float64(s.Size)
	least := max(min(fullBytes, fullSmall*size), fullShare*size)
	return s.Size > 0 && (float64(s.Free) < least || s.InodesFree < fullInodes)
}

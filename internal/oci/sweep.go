package oci

import (
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// What creates spend on markers of other containers: one of sweepEvery, picked
// at random, looks at up to sweptAtOnce. With two looked at for each one added,
// there are at most about as many void ones as live ones.
const (
	sweepEvery  = 8
	sweptAtOnce = 2 * sweepEvery
)

// sweep removes markers whose bundle is gone, among up to sweptAtOnce that it
// picks by the time. `delete` can't do it, as it goes straight to the real runc.
func (m markers) sweep() {
	fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the marker is written to the same directory next, and that says why
	}
	defer unix.Close(fd)
	names, err := readNames(fd)
	if err != nil {
		return
	}
	for i := range min(sweptAtOnce, len(names)) {
		path := m.dir + "/" + names[(m.now.Nanosecond()/1000/sweepEvery+i)%len(names)]
		if m.void(path) {
			_ = unix.Unlink(path) // another create may have been quicker
		}
	}
}

// void tells whether a marker's container can't be there: its bundle is gone,
// or the create that made the marker was killed before it wrote it.
func (m markers) void(path string) bool {
	data, st, err := readRegular(path, true)
	if err != nil {
		return false
	}
	if len(data) == 0 {
		return m.now.Sub(time.Unix(st.Mtim.Unix())) > time.Minute
	}
	k, err := decodeMarker(data)
	if err != nil || k.bundle == "" {
		return false
	}
	return errors.Is(unix.Lstat(filepath.Join(k.bundle, configName), &unix.Stat_t{}), unix.ENOENT)
}

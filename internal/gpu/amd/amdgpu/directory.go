package amdgpu

import "golang.org/x/sys/unix"

// stamp tells one directory from its successor of the same name.
type stamp struct {
	dev, ino uint64
	changed  unix.Timespec
}

func stampOf(st unix.Stat_t, err error) stamp {
	if err != nil {
		return stamp{}
	}
	return stamp{st.Dev, st.Ino, st.Mtim}
}

// directory is one that is watched: through a descriptor, which is cheap, and
// by its path, which also notices that another one was put in its place.
type directory struct {
	path string // as this process opens it
	fd   int
	was  stamp
}

func (d *directory) open(path string) {
	d.close()
	var st unix.Stat_t
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	d.path, d.fd = path, fd
	err = unix.Fstat(fd, &st)
	d.was = stampOf(st, err)
}

func (d *directory) close() {
	if d.path != "" {
		unix.Close(d.fd)
	}
	*d = directory{}
}

func (d *directory) same(byPath bool) bool {
	if d.path == "" {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	if byPath && err == nil {
		err = unix.Stat(d.path, &st)
	}
	return st.Nlink > 0 && stampOf(st, err) == d.was
}

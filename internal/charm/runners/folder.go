package runners

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// maxFile bounds the files of a runner that are read.
const maxFile = 1 << 20

// folder is an open directory. No link is followed on the way to it or to its files: root
// may call, and its owner may put a link to another user's file there at any time.
type folder struct {
	fd   int
	path string // for errors
}

const openDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openFolder opens a folder by its absolute path.
func openFolder(r host.Root, dir string) (folder, error) {
	fd, err := unix.Open(r.Path("/"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return folder{}, err
	}
	f := folder{fd: fd, path: "/"}
	for name := range strings.SplitSeq(strings.Trim(path.Clean("/"+dir), "/"), "/") {
		if name == "" {
			continue
		}
		next, err := f.open(name)
		f.close()
		if err != nil {
			return folder{}, err
		}
		f = next
	}
	return f, nil
}

func (f folder) open(name string) (folder, error) {
	at := path.Join(f.path, name)
	fd, err := unix.Openat(f.fd, name, openDir, 0)
	if err == nil {
		return folder{fd: fd, path: at}, nil
	}
	var st unix.Stat_t
	if unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return folder{}, fmt.Errorf("%s is a link, and links are not followed; name the folder that it leads to", at)
	}
	return folder{}, fmt.Errorf("cannot open %s: %w", at, err)
}

func (f folder) close() { unix.Close(f.fd) }

// below opens the folder of a file below this one, and returns the name of the file in it.
func (f folder) below(name string) (folder, string, error) {
	if dir, base := path.Split(name); dir != "" {
		in, err := f.open(path.Clean(dir))
		return in, base, err
	}
	in, err := f.open(".")
	in.path = f.path
	return in, name, err
}

func (f folder) exists(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// attributes are those of a file that its replacement keeps.
type attributes struct {
	mode     fs.FileMode
	uid, gid int
	there    bool
}

// read reads a regular file with one name. A file with several could be another user's,
// which its writer could not read.
func (f folder) read(name string) ([]byte, attributes, error) {
	at := path.Join(f.path, name)
	fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, attributes{}, fmt.Errorf("%s is a link, and links are not followed; put the file itself there", at)
	}
	if err != nil {
		return nil, attributes{}, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	file := os.NewFile(uintptr(fd), at)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, attributes{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return nil, attributes{}, fmt.Errorf("%s is not a regular file with one name", at)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", at, maxFile)
	}
	return data, attributes{mode: fs.FileMode(st.Mode & 0o777), uid: int(st.Uid), gid: int(st.Gid), there: true}, err
}

// write writes a file that belongs to the folder's owner.
func (f folder) write(name string, data []byte, mode fs.FileMode) error {
	return f.replace(name, data, attributes{mode: mode})
}

// replace writes a file with these attributes. A new file belongs to the folder's owner.
func (f folder) replace(name string, data []byte, as attributes) (err error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return err
	}
	if !as.there {
		as.uid, as.gid = int(st.Uid), int(st.Gid)
	}
	temp := "." + strings.TrimPrefix(name, ".") + "." + rand.Text()
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(f.fd, temp, flags, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write in %s: %w; run the command as its owner or with sudo", f.path, err)
	}
	file := os.NewFile(uintptr(fd), path.Join(f.path, temp))
	_, err = file.Write(data)
	if err == nil && (as.uid != os.Geteuid() || as.gid != os.Getegid()) {
		err = unix.Fchown(fd, as.uid, as.gid)
	}
	if err == nil {
		err = unix.Fchmod(fd, uint32(as.mode.Perm()))
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = unix.Renameat(f.fd, temp, f.fd, name)
	}
	if err != nil {
		unix.Unlinkat(f.fd, temp, 0)
		return fmt.Errorf("cannot write %s: %w", path.Join(f.path, name), err)
	}
	return nil
}

// remove removes a file. A missing one is no error.
func (f folder) remove(name string) error {
	if err := unix.Unlinkat(f.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: path.Join(f.path, name), Err: err}
	}
	return nil
}

package jobexporter

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readSecret reads a small file that only its owner can access. The owner must be root or
// the user of this process, because any other owner could change it.
func readSecret(path string) ([]byte, error) {
	// O_NONBLOCK, because a FIFO in its place must not block the program.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, pathless(err)
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("its mode is %#o, so others than its owner may use it; run: chmod 0600 %s", mode, path)
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return nil, fmt.Errorf("it belongs to user %d, and this program runs as user %d", owner, os.Geteuid())
	}
	return readSome(f, maxFile)
}

// readCA reads a ca-file, which is public.
func readCA(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()
	return readSome(f, maxCA)
}

func readSome(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, pathless(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, nil
}

// pathless removes the path from an error, because the caller adds it.
func pathless(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

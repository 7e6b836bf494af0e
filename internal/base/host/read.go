package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotFile reports that the name belongs to another kind of file.
var ErrNotFile = errors.New("not a regular file")

// ReadFile reads a whole regular file. It never waits for another process, because a pipe
// with the name of a file would block a hook permanently.
func (r Root) ReadFile(p string) ([]byte, error) {
	f, err := os.OpenFile(r.Path(p), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: ErrNotFile}
	}
	b := bytes.NewBuffer(make([]byte, 0, st.Size()+bytes.MinRead))
	if _, err := b.ReadFrom(f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

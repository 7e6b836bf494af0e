package taskrecord

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// KeepDump stores a dump, compressed and bounded, and returns its description.
func (s Store) KeepDump(handle, gpu, source string, from io.Reader) (d DumpRef, err error) {
	d = DumpRef{GPU: gpu, Source: source}
	f, err := s.newDump(handle)
	if err != nil {
		return d, err
	}
	sum, out := sha256.New(), &bounded{w: f}
	z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err == nil {
		d.Size, err = io.Copy(io.MultiWriter(z, sum), io.LimitReader(from, MaxDump))
	}
	if err == nil {
		err = z.Close()
	}
	if err = errors.Join(err, f.Close()); err != nil || d.Size == 0 {
		return DumpRef{GPU: gpu, Source: source}, errors.Join(cmp.Or(err, errors.New("it is empty")), os.Remove(f.Name()))
	}
	d.File, d.Digest, d.Cut = filepath.Base(f.Name()), hex.EncodeToString(sum.Sum(nil)), d.Size == MaxDump
	return d, nil
}

// newDump makes the file of a task's next dump.
func (s Store) newDump(handle string) (f *os.File, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	err = fs.ErrExist
	for n := 1; errors.Is(err, fs.ErrExist); n++ {
		f, err = os.OpenFile(s.path(handle, fmt.Sprintf(".%d%s", n, dump)), flags, 0o600)
	}
	return f, err
}

// bounded fails beyond maxZipped bytes.
type bounded struct {
	w io.Writer
	n int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.n += len(p); b.n > maxZipped {
		return 0, fmt.Errorf("it has more than %d bytes compressed", maxZipped)
	}
	return b.w.Write(p)
}

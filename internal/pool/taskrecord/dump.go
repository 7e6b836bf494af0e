package taskrecord

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// KeepDump stores a dump, compressed and bounded, and returns its description.
func (s Store) KeepDump(handle, gpu, source string, number int, from io.Reader) (d DumpRef, err error) {
	d = DumpRef{GPU: gpu, Source: source}
	name := fmt.Sprintf("%s-%d%s", handle, number, dump)
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	f, err := os.OpenFile(filepath.Join(s.Dir, name), flags, 0o600)
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
	d.File, d.Digest, d.Cut = name, hex.EncodeToString(sum.Sum(nil)), d.Size == MaxDump
	return d, nil
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

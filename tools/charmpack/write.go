package charmpack

import (
	"archive/zip"
	"compress/flate"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// MaxSize is the maximum size of a charm in bytes, because controllers store every revision
// and send it to every unit.
const MaxSize = 45_000_000

// epoch is the time of every file in the zip, the earliest that a zip supports. With it the
// same tree gives the same bytes.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// writeZip writes the entries as a charm, with links and permission bits.
func writeZip(w io.Writer, entries []Entry) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: epoch}
		h.SetMode(e.Mode)
		f, err := z.CreateHeader(h)
		if err == nil {
			_, err = f.Write(e.Data)
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", e.Name, err)
		}
	}
	return z.Close()
}

// writeTree writes the entries as files below dir, and replaces existing ones.
func writeTree(dir string, entries []Entry) error {
	for _, e := range entries {
		path := filepath.Join(dir, filepath.FromSlash(e.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("cannot write %s: %w", e.Name, err)
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("cannot replace %s: %w", e.Name, err)
		}
		var err error
		if e.Mode.Type() == fs.ModeSymlink {
			err = os.Symlink(string(e.Data), path)
		} else if err = os.WriteFile(path, e.Data, e.Mode); err == nil {
			err = os.Chmod(path, e.Mode) // whatever the umask
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", e.Name, err)
		}
	}
	return nil
}

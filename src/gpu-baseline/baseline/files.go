package baseline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxSize is how many bytes a profile may have.
const maxSize = 16 << 20

// readProfile reads a file, or standard input for "-". A file that is not there is an
// fs.ErrNotExist.
func readProfile(file string, stdin io.Reader) (Profile, error) {
	in, name := stdin, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return Profile{}, fmt.Errorf("cannot read %s: %w", visible(file), cause(err))
		}
		defer f.Close()
		in, name = f, file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return Profile{}, fmt.Errorf("cannot read %s: %w", visible(name), cause(err))
	}
	if len(data) > maxSize {
		return Profile{}, fmt.Errorf("cannot read %s: it has more than %d MiB", visible(name), maxSize>>20)
	}
	return Parse(name, data)
}

// cause is the error without the file's name, which is said anyway.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// replace writes a file in one step, so that nobody reads half a report; not over
// what was compared.
func replace(file, content string, inputs ...string) error {
	info, err := os.Stat(file)
	if err == nil {
		for _, in := range inputs {
			if other, err := os.Stat(in); err == nil && os.SameFile(info, other) {
				return fmt.Errorf("cannot write %s: it is one of the profiles", visible(file))
			}
		}
		if !info.Mode().IsRegular() { // such as /dev/stderr
			return plainly(file, content)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".gpu-baseline-*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", visible(file), cause(err))
	}
	defer os.Remove(f.Name()) // nothing is left there after a rename
	_, err = f.WriteString(content)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", visible(file), cause(err))
	}
	return nil
}

func plainly(file, content string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", visible(file), cause(err))
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", visible(file), cause(err))
	}
	return nil
}

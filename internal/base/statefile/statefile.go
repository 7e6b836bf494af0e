// Package statefile reads and writes the project's own files of JSON. Each file is declared
// once, as a File with the struct of its content. A file has the version of its format as
// its first member; without one it has version 1. The package never reads, replaces or
// removes a file of a later version.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// ErrDamaged reports that the file exists and its content is not valid.
var ErrDamaged = errors.New("it is damaged")

// File declares a state file with the content T, a struct or a slice. A slice is written
// without a version: a later format of it is a struct.
type File[T any] struct {
	Path    string
	Mode    fs.FileMode
	Version int // newest version that this program reads; 0 means 1
	// Valid returns an error for content that is damaged. nil accepts all.
	Valid func(T) error
	// Disposable reads a damaged file as the zero value, because its loss does little harm.
	Disposable bool
}

// Read returns the content. A missing file has the zero value. The error is ErrDamaged, a
// NewerError, or an error of the file system.
func (f File[T]) Read(r host.Root) (content T, err error) {
	data, err := r.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content, nil
	case errors.Is(err, host.ErrNotFile):
		if f.Disposable {
			return content, nil
		}
		return content, f.damaged(err)
	case err != nil:
		return content, fmt.Errorf("cannot read %s: %w", f.Path, err)
	}
	return f.Decode(data)
}

func (f File[T]) damaged(err error) error {
	return fmt.Errorf("cannot read %s: %w: %w", f.Path, ErrDamaged, err)
}

// Decode returns the content of a file's bytes.
func (f File[T]) Decode(data []byte) (content T, err error) {
	if err := f.checkVersion(data); err != nil {
		return content, err
	}
	err = json.Unmarshal(data, &content)
	if err == nil && f.Valid != nil {
		err = f.Valid(content)
	}
	if err == nil {
		return content, nil
	}
	var zero T
	if f.Disposable {
		return zero, nil
	}
	return zero, f.damaged(err)
}

// leading finds the version, which is the first member.
var leading = lazyregexp.New(`^\s*\{\s*"` + rawjson.VersionKey + `"\s*:\s*([0-9]{1,6})\b`)

// leadingSize exceeds the bytes up to the version.
const leadingSize = 64

func (f File[T]) newest() int { return max(f.Version, 1) }

// checkVersion needs only the first bytes of a file.
func (f File[T]) checkVersion(data []byte) error {
	m := leading().FindSubmatch(data[:min(len(data), leadingSize)])
	if m == nil {
		return nil
	}
	if n, _ := strconv.Atoi(string(m[1])); n > f.newest() {
		return &rawjson.NewerError{File: f.Path, Version: n, Newest: f.newest()}
	}
	return nil
}

// Encode returns the bytes of a file with this content.
func (f File[T]) Encode(content T) ([]byte, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", f.Path, err)
	}
	if data[0] == '{' {
		version := fmt.Sprintf(`{"%s":%d`, rawjson.VersionKey, f.newest())
		if data[1] != '}' {
			version += ","
		}
		data = append([]byte(version), data[1:]...)
	}
	return append(data, '\n'), nil
}

// Write replaces the file in one step, unless it has a later version.
func (f File[T]) Write(r host.Root, content T) error {
	data, err := f.Encode(content)
	if err == nil {
		err = f.check(r)
	}
	if err != nil {
		return err
	}
	return r.WriteFile(f.Path, data, f.Mode)
}

// Remove removes the file, unless it has a later version.
func (f File[T]) Remove(r host.Root) error {
	if err := f.check(r); err != nil {
		return err
	}
	return r.Remove(f.Path)
}

// check returns an error if the file has a later version.
func (f File[T]) check(r host.Root) error {
	// O_NONBLOCK: a FIFO at this path must not block.
	file, err := os.OpenFile(r.Path(f.Path), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil // what is not a file is replaced
	}
	defer file.Close()
	var start [leadingSize]byte
	n, _ := io.ReadFull(file, start[:])
	return f.checkVersion(start[:n])
}

// Package report writes one file that shows the GPUs of a machine to the people who maintain
// this project: the files that the programs read, and their answers. It has no secrets.
package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// Answer names a file of the report, and writes it as a command prints it. The report also has its
// error.
type Answer struct {
	Name  string // such as gpu-list.txt
	Write func(io.Writer) error
}

// Source holds the content of a report, and how to read the rest.
type Source struct {
	Parts    []string // of this machine, see Parts
	Unlisted error    // why Parts lacks GPUs, if it does
	About    string   // the first file, for its reader
	Answers  []Answer
	// ReadTree returns WriteTree of parts, or what came of it and an error. It may give up
	// on a GPU that hangs.
	ReadTree func(ctx context.Context, parts []string) ([]byte, error)
}

// Write writes the report as a compressed tar archive, and returns the number of its files
// and the problems on the way. A problem leaves the rest of the report.
func Write(ctx context.Context, s Source, now time.Time, w io.Writer) (files int, problems []error, err error) {
	zip := gzip.NewWriter(w)
	out := &archive{Writer: tar.NewWriter(zip), now: now, written: map[string]bool{}}
	err = out.add("README", s.About)
	for _, a := range s.Answers {
		var text bytes.Buffer
		if failed := a.Write(&text); failed != nil {
			fmt.Fprintln(&text, failed)
		}
		err = errors.Join(err, out.add(a.Name, text.String()))
	}
	if s.Unlisted != nil {
		problems = append(problems, s.Unlisted)
	}
	for i, part := range s.Parts {
		read := []string{part}
		if i == 0 {
			read = s.Parts
		}
		tree, failed := s.ReadTree(ctx, read)
		copied := out.copyTree(tree)
		if errors.Is(copied, errArchive) {
			err = errors.Join(err, copied)
		} else if failed = errors.Join(failed, copied); failed != nil {
			problems = append(problems, fmt.Errorf("cannot read all files of %s: %w", part, failed))
		}
	}
	var text bytes.Buffer
	for _, p := range problems {
		fmt.Fprintln(&text, p)
	}
	if text.Len() > 0 {
		err = errors.Join(err, out.add("problems.txt", text.String()))
	}
	return len(out.written), problems, errors.Join(err, out.Close(), zip.Close())
}

type archive struct {
	*tar.Writer
	now     time.Time
	written map[string]bool // the parts have links in common
}

// errArchive reports that the report itself cannot be written.
var errArchive = errors.New("cannot write the report")

func (a *archive) put(h tar.Header, text io.Reader) error {
	h.Name, h.ModTime = path.Join("report", h.Name), a.now
	if a.written[h.Name] {
		return nil
	}
	a.written[h.Name] = true
	if err := a.WriteHeader(&h); err != nil {
		return fmt.Errorf("%w: %w", errArchive, err)
	}
	if _, err := io.Copy(a, text); err != nil {
		return fmt.Errorf("%w: %w", errArchive, err)
	}
	return nil
}

func (a *archive) add(name, text string) error {
	return a.put(tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}, bytes.NewReader([]byte(text)))
}

// copyTree copies the entries of a part into the folder tree. Another process wrote them,
// perhaps not to the end.
func (a *archive) copyTree(part []byte) error {
	in := tar.NewReader(bytes.NewReader(part))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		name := path.Join("tree", h.Name)
		if len(h.Name) > len(Unread) && h.Name[:len(Unread)] == Unread {
			name = h.Name + ".txt"
		}
		entry := tar.Header{Name: name, Typeflag: h.Typeflag, Linkname: h.Linkname, Mode: h.Mode, Size: h.Size}
		if err := a.put(entry, bytes.NewReader(text)); err != nil {
			return err
		}
	}
}

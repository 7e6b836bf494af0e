package baseline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// maxSize is the maximum size of a profile in bytes.
const maxSize = 16 << 20

// readProfile reads a file, or standard input for "-". A missing file is an fs.ErrNotExist.
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

// cause removes the file's name from an error, because the message has it already.
func cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// replace writes a file in one step, so that no reader gets half a report. It does not
// overwrite the inputs.
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
	defer os.Remove(f.Name()) // after a rename the name is free
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

// folder stores profiles as profile-<time>-<commit>.json, and skip-<commit>.txt for commits
// that the command skipped.
type folder struct {
	host.Host
	dir string
}

// load adds the stored profiles to the bisection. It ignores files with other names, and
// invalid profiles with a note.
func (f folder) load(b *bisection) (profiles int, notes []string, err error) {
	entries, err := f.ReadDir(f.dir)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read the profiles in %s: %w", visible(f.dir), cause(err))
	}
	for _, e := range entries {
		id, ok := profileName(e.Name())
		for i, c := range b.commits {
			file := filepath.Join(f.dir, e.Name())
			switch {
			case e.Name() == skipName(c):
				b.broken[i] = "its command asked to skip it, and " + e.Name() + " records this"
			case ok && sameCommit(id, c.ID):
				p, err := readProfile(f.Path(file), nil)
				if err != nil {
					notes = append(notes, "left out: "+err.Error())
					continue
				}
				b.runs[i] = append(b.runs[i], p)
				profiles++
			}
		}
	}
	return profiles, notes, nil
}

// store writes a new profile.
func (f folder) store(c Commit, data []byte) error {
	at := f.Now().UTC()
	file := ""
	for file == "" || f.Exists(file) { // two runs may end in the same second
		file = filepath.Join(f.dir, fmt.Sprintf("profile-%s-%s.json", at.Format("20060102150405"), c.short()))
		at = at.Add(time.Second)
	}
	return f.WriteFile(file, data, 0o644)
}

func skipName(c Commit) string { return "skip-" + c.short() + ".txt" }

// skip records that the command skipped a commit.
func (f folder) skip(c Commit, why string) error {
	return f.WriteFile(filepath.Join(f.dir, skipName(c)), []byte(why+"\n"), 0o644)
}

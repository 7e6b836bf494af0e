package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// part describes one addition to an engine's file.
type part struct {
	Name   string `json:"name"`             // shown to users: runtimes.amd
	Text   string `json:"text"`             // as written to the file
	Before string `json:"before,omitempty"` // the text that it replaced
}

// record describes the edits of an engine's file, so that --remove undoes exactly these. It
// may contain the engine's secrets, so only root can read its file.
type record struct {
	File    string `json:"file"`
	Existed bool   `json:"existed"`
	Before  []byte `json:"before"`
	After   []byte `json:"after"`
	Parts   []part `json:"parts"`
	// Found and Previous are the file and its parts before the change to After. They remain if a
	// run ends between writing the record and the file, and are removed otherwise.
	Found    []byte `json:"found,omitempty"`
	Previous []part `json:"previous,omitempty"`
	// Made lists the folders that were missing before the file, the deepest first.
	Made []string `json:"made,omitempty"`
}

// missingFolders returns the missing folders above a file, the deepest first.
func missingFolders(r host.Root, file string) (missing []string) {
	for dir := path.Dir(file); dir != "/" && !r.Exists(dir); dir = path.Dir(dir) {
		missing = append(missing, dir)
	}
	return missing
}

// removeFolders removes folders of missingFolders, up to the first that is not empty.
func removeFolders(h host.Host, made []string) error {
	for _, dir := range made {
		list, err := h.ReadDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case len(list) > 0:
			return nil
		}
		if err := h.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// editor edits one file format.
type editor interface {
	// add adds parts, and records the text that each replaced.
	add(before []byte, parts []part) (after []byte, put []part, err error)
	// remove removes the parts that are unchanged, and returns the names of the others.
	remove(now []byte, parts []part) (left []byte, kept []string, err error)
}

// edited describes an engine's own file with our parts.
type edited struct {
	engine, file string
	editor       editor
	// want returns the parts, from the file without them and the parts that were added
	// last.
	want func(before []byte, had []part) ([]part, error)
}

// Records has the record of each edited engine. A unit's removal keeps those of other wrappers.
const Records = wellknown.StateDir + "/engines"

func recordPath(engine string) string { return path.Join(Records, engine+".json") }

func recordFile(engine string) statefile.File[record] {
	return statefile.File[record]{Path: recordPath(engine), Mode: 0o600}
}

func readRecord(r host.Root, engine string) (*record, error) {
	rec, err := recordFile(engine).Read(r)
	var newer *rawjson.NewerError
	switch {
	case errors.As(err, &newer):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot read the changes to %s: %w; remove %s, and undo them by hand",
			engine, err, recordPath(engine))
	case rec.File == "":
		return nil, nil
	}
	return &rec, nil
}

// readEngineFile reads a file that may be missing.
func readEngineFile(r host.Root, file string) (data []byte, there bool, err error) {
	st, err := r.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a regular file; set --config-path=PATH to its target")
	}
	if err == nil {
		data, err = r.ReadFile(file)
	}
	if err != nil {
		err = fmt.Errorf("cannot read %s: %w", file, err)
	}
	return data, err == nil, err
}

// found holds an engine's file, if it is there, and the record of its edits, if it has one.
type found struct {
	rec   *record
	now   []byte
	there bool
}

// original holds an engine's file as it is without our additions, and the names of the
// parts that a user changed.
type original struct {
	before  []byte
	existed bool
	kept    []string
}

// without returns the file as it would be without our additions.
func (e edited) without(f found) (o original, err error) {
	rec, now := f.rec, f.now
	switch {
	case rec == nil || rec.File != e.file || !f.there || rec.Existed && bytes.Equal(now, rec.Before):
		return original{before: now, existed: f.there}, nil
	case bytes.Equal(now, rec.After), len(rec.Previous) > 0 && bytes.Equal(now, rec.Found):
		return original{before: rec.Before, existed: rec.Existed}, nil
	}
	o.existed = true
	if o.before, o.kept, err = e.editor.remove(now, rec.Parts); err != nil || len(rec.Previous) == 0 {
		return o, err
	}
	// A run ended between the record and the file, and the file was edited since. It has
	// either the new parts or the previous ones.
	var had []string
	o.before, had, err = e.editor.remove(o.before, rec.Previous)
	o.kept = slices.DeleteFunc(o.kept, func(name string) bool {
		return named(rec.Previous, name) && !slices.Contains(had, name)
	})
	for _, name := range had {
		if !named(rec.Parts, name) {
			o.kept = append(o.kept, name)
		}
	}
	return o, err
}

func named(parts []part, name string) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.Name == name })
}

// had returns the parts that the file may have, each once.
func (rec *record) had() (all []part) {
	if rec == nil {
		return nil
	}
	for _, p := range slices.Concat(rec.Parts, rec.Previous) {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Diff implements plan.Resource.
func (e edited) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	f, err := e.read(h.Root)
	if err != nil {
		return nil, err
	}
	o, err := e.without(f)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", e.file, err)
	}
	rec, now, there, before := f.rec, f.now, f.there, o.before
	had := rec.had()
	parts, err := e.want(before, had)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", e.file, err)
	}
	after, put, err := e.editor.add(before, parts)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", e.file, err)
	}
	next := record{File: e.file, Existed: o.existed, Before: before, After: after, Parts: put}
	if next.Made = missingFolders(h.Root, e.file); rec != nil && len(next.Made) == 0 {
		next.Made = rec.Made
	}
	forget := e.saveRecord(h, next, "what --remove takes back")
	switch done := there && bytes.Equal(now, after); {
	case done && rec != nil && len(rec.Previous) > 0:
		return plan.Plan{forget}, nil
	case done && (rec != nil || len(put) == 0):
		return nil, nil
	case !there || bytes.Equal(now, before): // it has none of our parts
		return plan.Plan{forget, e.write(h, after, "puts in "+e.texts(put), rec)}, nil
	}
	next.Found, next.Previous = now, had
	return plan.Plan{e.saveRecord(h, next, "what was there and what shall be"),
		e.write(h, after, "puts in "+e.texts(put), rec), forget}, nil
}

func (e edited) texts(put []part) string {
	var texts []string
	for _, p := range put {
		text := p.Name
		if p.Before != "" {
			text += ", in place of " + strings.Join(strings.Fields(p.Before), " ")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// read reads the engine's file and the record.
func (e edited) read(r host.Root) (f found, err error) {
	if f.rec, err = readRecord(r, e.engine); err != nil {
		return found{}, err
	}
	if f.rec != nil && f.rec.File != e.file {
		return found{}, fmt.Errorf("cannot edit %s: %s was edited before; take that back first, by "+
			"--remove --config-path=%[2]s", e.file, f.rec.File)
	}
	f.now, f.there, err = readEngineFile(r, e.file)
	return f, err
}

// saveRecord writes the record. This comes before the file, because removing parts that the
// file does not have does no harm.
func (e edited) saveRecord(h host.Host, rec record, why string) plan.Step {
	return plan.Step{Op: "write " + recordPath(e.engine), Why: why,
		Do: func(context.Context) error { return e.writeRecord(h, rec) }}
}

func (e edited) writeRecord(h host.Host, rec record) error { return writeRecord(h, e.engine, rec) }

func writeRecord(h host.Host, engine string, rec record) error {
	return recordFile(engine).Write(h.Root, rec)
}

// removeRecord removes the record and folders that are empty without it.
func (e edited) removeRecord(h host.Host) error { return removeRecord(h, e.engine) }

func removeRecord(h host.Host, engine string) error {
	if err := recordFile(engine).Remove(h.Root); err != nil {
		return err
	}
	for _, dir := range []string{path.Dir(recordPath(engine)), wellknown.StateDir} {
		if list, err := h.ReadDir(dir); err == nil && len(list) == 0 {
			if err := h.Remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the engine's file. If that fails, it restores the record.
func (e edited) write(h host.Host, data []byte, why string, was *record) plan.Step {
	return plan.Step{Op: "write " + e.file, Why: why, Content: data, Do: func(context.Context) error {
		err := e.writeFile(h, data)
		switch {
		case err == nil:
			return nil
		case was == nil:
			return errors.Join(err, e.removeRecord(h))
		}
		return errors.Join(err, e.writeRecord(h, *was))
	}}
}

// writeFile writes the file and keeps its mode and owner.
func (e edited) writeFile(h host.Host, data []byte) error {
	st, err := h.Lstat(e.file)
	if errors.Is(err, fs.ErrNotExist) {
		return h.WriteFile(e.file, data, 0o644)
	}
	if err != nil {
		return err
	}
	sys := st.Sys().(*syscall.Stat_t)
	return h.WriteFileAs(e.file, data, st.Mode().Perm(), int(sys.Uid), int(sys.Gid))
}

// asBefore undoes the edits of edited, without a file those of the recorded one.
type asBefore edited

// Diff implements plan.Resource.
func (a asBefore) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	e := edited(a)
	if rec, err := readRecord(h.Root, e.engine); err != nil || rec == nil {
		return nil, err
	} else if e.file == "" {
		e.file = rec.File
	}
	f, err := e.read(h.Root)
	if err != nil {
		return nil, err
	}
	o, err := e.without(f)
	if err != nil {
		return nil, fmt.Errorf("cannot edit %s: %w", e.file, err)
	}
	var names []string
	for _, p := range f.rec.had() {
		if !slices.Contains(o.kept, p.Name) && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	why := "takes back " + strings.Join(names, "; ")
	var p plan.Plan
	switch {
	case !f.there:
	case !o.existed:
		p = plan.Plan{{Op: "remove " + e.file, Why: "it was not there before",
			Do: func(context.Context) error {
				return errors.Join(h.Remove(e.file), removeFolders(h, f.rec.Made))
			}}}
	case !bytes.Equal(f.now, o.before):
		p = plan.Plan{e.write(h, o.before, why, f.rec)}
	}
	forget := "nothing of it is left"
	if len(o.kept) > 0 {
		forget = "another program changed it since, so it is kept: " + strings.Join(o.kept, "; ")
	}
	return append(p, plan.Step{Op: "remove " + recordPath(e.engine), Why: forget,
		Do: func(context.Context) error { return e.removeRecord(h) }}), nil
}

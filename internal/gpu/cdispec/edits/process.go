package edits

import (
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// Process holds changes of a process: of a container's first process in config.json, of
// each other in the process file of its exec.
type Process struct {
	Groups []uint32 // numbers in the container, for user.additionalGids
	Env    Environment
}

// None reports whether there are no changes.
func (p *Process) None() bool { return len(p.Groups) == 0 && p.Env.none() }

// AddGroup adds a group once.
func (p *Process) AddGroup(gid uint32) {
	if !slices.Contains(p.Groups, gid) {
		p.Groups = append(p.Groups, gid)
	}
}

// Apply returns the changed process file in pieces, none without a change.
func (p *Process) Apply(doc *rawjson.Doc) ([][]byte, error) {
	edit, err := rawjson.NewEdit(doc)
	if err != nil {
		return nil, err
	}
	if err := p.apply(edit.Root()); err != nil {
		return nil, err
	}
	return edit.Parts(), nil
}

func (e *Edits) applyProcess(root *rawjson.Node) error {
	process, err := root.At("process")
	if err != nil {
		return err
	}
	return e.Process.apply(process)
}

func (p *Process) apply(process *rawjson.Node) error {
	if !p.Env.none() {
		if err := p.Env.apply(process); err != nil {
			return err
		}
	}
	if len(p.Groups) == 0 {
		return nil
	}
	user, err := process.At("user")
	if err != nil {
		return err
	}
	number := func(g uint32, out []byte) []byte { return appendNumber(out, g) }
	return user.Append("additionalGids", encode(p.Groups, number), nil)
}

// Environment holds changes of a process's environment.
type Environment struct {
	Set      []string // NAME=value, replaces a present value: CDI's rule
	Defaults []string // NAME=value, only if the variable is missing; the first of a name wins
}

func (v Environment) none() bool { return len(v.Set)+len(v.Defaults) == 0 }

func (v Environment) apply(process *rawjson.Node) error {
	own, err := process.Strings("env")
	if err != nil {
		return err
	}
	var want []string
	for i, text := range v.Set {
		if _, again := Lookup(v.Set[i+1:], nameOf(text)); !again { // the last of a name wins
			want = append(want, text)
		}
	}
	for _, text := range v.Defaults {
		_, there := Lookup(own, nameOf(text))
		if _, set := Lookup(want, nameOf(text)); !there && !set {
			want = append(want, text)
		}
	}
	// Remove a variable with another value or a duplicate; keep a correct one.
	want = slices.DeleteFunc(want, func(text string) bool {
		return count(own, nameOf(text)) == 1 &&
			slices.Contains(own, text)
	})
	quoted := func(s string, out []byte) []byte { return rawjson.AppendString(out, s) }
	return process.Append("env", encode(want, quoted), func(e rawjson.Value) bool {
		name := nameOf(e.Text())
		return slices.ContainsFunc(want, func(w string) bool { return nameOf(w) == name })
	})
}

func nameOf(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

func count(env []string, name string) (n int) {
	for _, e := range env {
		if nameOf(e) == name {
			n++
		}
	}
	return n
}

// Lookup returns a variable's last value in a process's environment.
func Lookup(env []string, name string) (value string, set bool) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value, set = v, true
		}
	}
	return value, set
}

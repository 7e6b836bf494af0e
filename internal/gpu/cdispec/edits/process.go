package edits

import (
	"slices"

	"concourse-ci-machine/internal/base/rawjson"
)

// Process is what a process needs: the first one of a container by config.json,
// each other by the process file of its exec.
type Process struct {
	Groups []uint32 // numbers in the container, for user.additionalGids
	Env    Environment
}

// None reports whether the process stays as it is.
func (p *Process) None() bool { return len(p.Groups) == 0 && p.Env.none() }

// AddGroup adds a group once.
func (p *Process) AddGroup(gid uint32) {
	if !slices.Contains(p.Groups, gid) {
		p.Groups = append(p.Groups, gid)
	}
}

// Apply returns the changed process file in pieces, none where nothing changes.
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

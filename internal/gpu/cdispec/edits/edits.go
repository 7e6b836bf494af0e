// Package edits changes config.json of the OCI runtime spec, and the process file of an
// exec. Each kind of edit is a type with its JSON and its removals. A new kind needs a
// type, a field of Edits, and a case in Apply.
//
// It never reads the machine. Repeating an edit has no further effect, and all other bytes
// stay as they are.
package edits

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// Edits holds all changes of one config.json.
type Edits struct {
	Mounts  []Mount
	Devices []Device
	Rules   []Rule
	Process Process
	Hooks   []Hook
}

// None reports whether there are no changes.
func (e *Edits) None() bool {
	return len(e.Mounts)+len(e.Devices)+len(e.Rules)+len(e.Hooks) == 0 && e.Process.None()
}

// Apply returns the changed config.json in pieces, none without a change.
func (e *Edits) Apply(doc *rawjson.Doc) ([][]byte, error) {
	edit, err := rawjson.NewEdit(doc)
	if err != nil {
		return nil, err
	}
	for _, kind := range []func(*rawjson.Node) error{e.applyMounts, e.applyDevices, e.applyRules, e.applyProcess,
		e.applyHooks} {
		if err := kind(edit.Root()); err != nil {
			return nil, err
		}
	}
	return edit.Parts(), nil
}

// Has reports whether these edits place something at a path of the container.
func (e *Edits) Has(path string) bool {
	return slices.ContainsFunc(e.Mounts, func(m Mount) bool { return m.Destination == path }) ||
		slices.ContainsFunc(e.Devices, func(d Device) bool { return d.Path == path })
}

// taken finds the container's own entries at the paths of these edits, by the path at key.
func (e *Edits) taken(key string) func(rawjson.Value) bool {
	return func(v rawjson.Value) bool {
		path, err := v.StringOf(key)
		return err == nil && path != "" && e.Has(filepath.Clean(path))
	}
}

// encode returns each element in JSON.
func encode[T any](list []T, appendTo func(T, []byte) []byte) [][]byte {
	const usual = 160 // bytes of one element
	out, elements := make([]byte, 0, usual*len(list)), make([][]byte, len(list))
	for i, element := range list {
		from := len(out)
		out = appendTo(element, out)
		elements[i] = out[from:len(out):len(out)]
	}
	return elements
}

func appendNumber(out []byte, n uint32) []byte { return strconv.AppendUint(out, uint64(n), 10) }

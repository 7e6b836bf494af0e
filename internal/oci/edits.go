package oci

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/oci/rawjson"
)

// The next three are shaped as the OCI runtime spec has them (config-linux.md).
type mount struct {
	Destination string
	Type        string // "" for none
	Source      string
	Options     []string
}

type device struct {
	Path         string
	Type         string
	Major, Minor uint32
	FileMode     uint32
	UID, GID     uint32
}

type rule struct {
	Allow        bool
	Type         string
	Major, Minor uint32
	Access       string
}

// edits are all that the wrapper wants changed in config.json.
type edits struct {
	paths   []string // inside the container; older mounts and devices there are dropped
	mounts  []mount
	devices []device
	rules   []rule
	groups  []uint32 // container-side
	env     environment
	hooks   []cdiHook

	lease held // of the GPUs among these
}

func (e *edits) addGroup(gid uint32) {
	if !slices.Contains(e.groups, gid) {
		e.groups = append(e.groups, gid)
	}
}

// nothing is to be changed.
func (e *edits) none() bool {
	return len(e.mounts)+len(e.devices)+len(e.rules)+len(e.groups)+len(e.hooks) == 0 && e.env.none()
}

// addCDI takes over what a CDI spec wants besides device nodes.
func (e *edits) addCDI(f facts, c cdiEdits) {
	// Parents before what is in them; the container's own mounts stay in their
	// order, before these.
	mounts := slices.Clone(c.mounts)
	slices.SortStableFunc(mounts, func(a, b cdiMount) int {
		return strings.Count(a.containerPath, "/") - strings.Count(b.containerPath, "/")
	})
	for _, m := range mounts {
		if e.has(m.containerPath) {
			continue
		}
		e.paths = append(e.paths, m.containerPath)
		e.mounts = append(e.mounts, mount{m.containerPath, m.kind, m.hostPath, m.options})
	}
	e.hooks = c.hooks
	for i, text := range c.env { // the last of a name counts
		if _, again := lookupLast(c.env[i+1:], nameOf(text)); !again {
			e.env.set = append(e.env.set, text)
		}
	}
	for _, gid := range c.gids {
		// Without a number inside it could only stop the container, and the
		// policy has opened the nodes without it.
		if inside, ok := f.containerGID(gid); ok {
			e.addGroup(inside)
		}
	}
}

func (e *edits) has(path string) bool { return slices.Contains(e.paths, path) }

// apply returns the changed config.json in pieces, nil where nothing changes.
// Doing it twice gives the same as doing it once.
func (e *edits) apply(doc *rawjson.Doc, room []byte) ([][]byte, error) {
	edit, err := rawjson.NewEdit(doc, room)
	if err != nil {
		return nil, err
	}
	root := edit.Root()
	at := func(key string) func(rawjson.Value) bool {
		return func(v rawjson.Value) bool {
			path, err := v.StringOf(key)
			return err == nil && path != "" && e.has(filepath.Clean(path))
		}
	}
	if err := rawjson.Append(root, "mounts", e.mounts, mount.appendTo, at("destination")); err != nil {
		return nil, err
	}
	linux, err := root.Child("linux")
	if err != nil {
		return nil, err
	}
	if err := rawjson.Append(linux, "devices", e.devices, device.appendTo, at("path")); err != nil {
		return nil, err
	}
	resources, err := linux.Child("resources")
	if err != nil {
		return nil, err
	}
	// Last, since runc applies rules in order: a deny-all after ours would win.
	if err := rawjson.Append(resources, "devices", e.rules, rule.appendTo, oneOf(e.rules, rule.appendTo)); err != nil {
		return nil, err
	}
	process, err := root.Child("process")
	if err != nil {
		return nil, err
	}
	if err := editProcess(process, e.groups, e.env); err != nil {
		return nil, err
	}
	if err := e.applyHooks(root); err != nil {
		return nil, err
	}
	return edit.Parts(), nil
}

func (e *edits) applyHooks(root *rawjson.Node) error {
	if len(e.hooks) == 0 {
		return nil
	}
	hooks, err := root.Child("hooks")
	if err != nil {
		return err
	}
	for _, name := range hookNames() {
		var own []cdiHook
		for _, h := range e.hooks {
			if h.name == name {
				own = append(own, h)
			}
		}
		if err := rawjson.Append(hooks, name, own, cdiHook.appendTo, oneOf(own, cdiHook.appendTo)); err != nil {
			return err
		}
	}
	return nil
}

// oneOf finds elements that were written by this program before.
func oneOf[T any](own []T, appendTo func(T, []byte) []byte) func(rawjson.Value) bool {
	return func(v rawjson.Value) bool {
		var room [256]byte
		return slices.ContainsFunc(own, func(o T) bool { return string(appendTo(o, room[:0])) == string(v.Raw()) })
	}
}

func (h cdiHook) appendTo(out []byte) []byte { return append(out, h.json...) }

func (m mount) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"destination":`...), m.Destination)
	if m.Type != "" {
		out = rawjson.AppendString(append(out, `,"type":`...), m.Type)
	}
	out = rawjson.AppendString(append(out, `,"source":`...), m.Source)
	if len(m.Options) > 0 {
		out = rawjson.AppendStrings(append(out, `,"options":`...), m.Options)
	}
	return append(out, '}')
}

func (d device) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"path":`...), d.Path)
	out = rawjson.AppendString(append(out, `,"type":`...), d.Type)
	for _, f := range [...]struct {
		name  string
		value uint32
	}{{"major", d.Major}, {"minor", d.Minor}, {"fileMode", d.FileMode}, {"uid", d.UID}, {"gid", d.GID}} {
		out = append(append(append(out, `,"`...), f.name...), `":`...)
		out = strconv.AppendUint(out, uint64(f.value), 10)
	}
	return append(out, '}')
}

func (r rule) appendTo(out []byte) []byte {
	out = strconv.AppendBool(append(out, `{"allow":`...), r.Allow)
	out = rawjson.AppendString(append(out, `,"type":`...), r.Type)
	out = strconv.AppendUint(append(out, `,"major":`...), uint64(r.Major), 10)
	out = strconv.AppendUint(append(out, `,"minor":`...), uint64(r.Minor), 10)
	out = rawjson.AppendString(append(out, `,"access":`...), r.Access)
	return append(out, '}')
}

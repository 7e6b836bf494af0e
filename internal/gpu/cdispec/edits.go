package cdispec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// Edits holds the container edits of devices, as in specs-go v1.1.1.
type Edits struct {
	Nodes  []Node
	Env    []string // NAME=value
	Mounts []edits.Mount
	Hooks  []edits.Hook
	GIDs   []uint32 // group ids of the host
}

// Merge combines the edits of devices: first the edits of a spec for all its devices, then
// the devices' own, in the given order.
func Merge(devices []Device) (all Edits, err error) {
	var used []*Spec
	for _, d := range devices {
		if !slices.Contains(used, d.Spec) {
			used = append(used, d.Spec)
			if err := all.add(d.Spec.File, d.Spec.edits); err != nil {
				return Edits{}, err
			}
		}
		if err := all.add(d.Spec.File, d.edits); err != nil {
			return Edits{}, fmt.Errorf("%w [device %s]", err, d.Name)
		}
	}
	return all, nil
}

// add adds container edits of a spec, each node and hook once.
func (e *Edits) add(file string, v rawjson.Value) error {
	for _, part := range []struct {
		key  string
		kind rawjson.Kind
	}{
		{"deviceNodes", rawjson.Array}, {"mounts", rawjson.Array}, {"hooks", rawjson.Array}, {"env", rawjson.Array},
		{"additionalGids", rawjson.Array}, {"netDevices", rawjson.Array}, {"intelRdt", rawjson.Object},
	} {
		member, err := v.Member(part.key, part.kind)
		if err == nil && part.kind == rawjson.Object && !member.None() {
			err = fmt.Errorf("%s: %w", part.key, errUnsupported)
		}
		for element := range member.Elements() {
			if err = e.addPart(file, part.key, element); err != nil {
				err = fmt.Errorf("%s: %w", part.key, err)
				break
			}
		}
		if err != nil {
			return fmt.Errorf("cannot use CDI spec %s: %w", file, err)
		}
	}
	return nil
}

var errUnsupported = errors.New("this wrapper can't apply that; only deviceNodes, mounts, env, hooks and " +
	"additionalGids")

func (e *Edits) addPart(file, key string, v rawjson.Value) error {
	switch key {
	case "deviceNodes":
		return e.addNode(file, v)
	case "mounts":
		return e.addMount(v)
	case "hooks":
		return e.addHook(v)
	case "env":
		return e.addEnv(v)
	case "additionalGids":
		return e.addGID(v)
	}
	return errUnsupported
}

// Node maps a node of the host to a path in the container. A missing number is 0. Mode,
// owner and permissions are not read, because the wrapper's device policy sets them.
type Node struct {
	Path, HostPath string
	Major, Minor   uint64

	File string // path of the spec, for messages
}

func (e *Edits) addNode(file string, v rawjson.Value) (err error) {
	n := Node{File: file}
	if n.Path, err = v.StringOf("path"); err != nil {
		return err
	}
	if n.HostPath, err = v.StringOf("hostPath"); err != nil {
		return err
	}
	n.HostPath = cmp.Or(n.HostPath, n.Path)
	for _, p := range []string{n.Path, n.HostPath} {
		if !isCleanAbs(p) {
			return fmt.Errorf("path %q is not absolute and clean", p)
		}
	}
	kind, err := v.StringOf("type")
	if err != nil {
		return err
	}
	if kind != "" && kind != "c" && kind != "u" {
		return fmt.Errorf("%s has type %q, only c can be applied", n.Path, kind)
	}
	const limit = 1<<32 - 1
	if n.Major, err = v.NumberOf("major", limit); err != nil {
		return fmt.Errorf("%s: %w", n.Path, err)
	}
	if n.Minor, err = v.NumberOf("minor", limit); err != nil {
		return fmt.Errorf("%s: %w", n.Path, err)
	}
	for _, known := range e.Nodes {
		if known.Path == n.Path {
			return known.same(n)
		}
	}
	e.Nodes = append(e.Nodes, n)
	return nil
}

// same fails if another node has the same path.
func (n Node) same(o Node) error {
	if n.HostPath != o.HostPath || n.Major != o.Major || n.Minor != o.Minor {
		return fmt.Errorf("it describes %s in two ways", o.Path)
	}
	return nil
}

func (e *Edits) addMount(v rawjson.Value) (err error) {
	var m edits.Mount
	if m.Source, err = v.StringOf("hostPath"); err != nil {
		return err
	}
	if m.Destination, err = v.StringOf("containerPath"); err != nil {
		return err
	}
	if m.Type, err = v.StringOf("type"); err != nil {
		return err
	}
	if m.Options, err = v.Strings("options"); err != nil {
		return err
	}
	if !isCleanAbs(m.Destination) || m.Source == "" {
		return fmt.Errorf("containerPath %q is not absolute and clean, or hostPath is missing", m.Destination)
	}
	for _, o := range m.Options {
		// Files that a task creates there would belong to the host's root.
		if strings.HasSuffix(o, "idmap") {
			return fmt.Errorf("%s has the option %s, which would make tasks write as root of the host", m.Destination,
				o)
		}
	}
	e.Mounts = append(e.Mounts, m)
	return nil
}

// addHook copies a hook without the member hookName.
func (e *Edits) addHook(v rawjson.Value) error {
	name, err := v.StringOf("hookName")
	if err != nil {
		return err
	}
	if !slices.Contains(edits.HookNames(), name) {
		return fmt.Errorf("unknown hook %q", name)
	}
	path, err := v.StringOf("path")
	if err != nil {
		return err
	}
	if !isCleanAbs(path) {
		return fmt.Errorf("path %q of hook %s is not absolute and clean", path, name)
	}
	out := rawjson.AppendString([]byte(`{"path":`), path)
	for _, list := range []string{"args", "env"} {
		texts, err := v.Strings(list)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(texts) > 0 {
			out = rawjson.AppendStrings(append(out, `,"`+list+`":`...), texts)
		}
	}
	timeout, err := v.Member("timeout", rawjson.Number)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !timeout.None() {
		if _, err := timeout.Whole(1 << 31); err != nil {
			return fmt.Errorf("%s: timeout: %w", name, err)
		}
		out = append(append(out, `,"timeout":`...), timeout.Raw()...)
	}
	h := edits.Hook{Name: name, JSON: append(out, '}')}
	if !slices.ContainsFunc(e.Hooks, func(k edits.Hook) bool {
		return k.Name == h.Name &&
			string(k.JSON) == string(h.JSON)
	}) {
		e.Hooks = append(e.Hooks, h)
	}
	return nil
}

func (e *Edits) addEnv(v rawjson.Value) error {
	if text := v.Text(); strings.IndexByte(text, '=') > 0 {
		e.Env = append(e.Env, text)
		return nil
	}
	return fmt.Errorf("%s is not NAME=value", v.Raw())
}

func (e *Edits) addGID(v rawjson.Value) error {
	gid, err := v.Whole(1<<32 - 1)
	if err == nil && gid != 0 { // 0 means none (CDI library, Apply)
		e.GIDs = append(e.GIDs, uint32(gid))
	}
	return err
}

package cdispec

import (
	"errors"
	"fmt"
	"slices"

	"concourse-ci-machine/internal/oci/edits"
	"concourse-ci-machine/internal/oci/rawjson"
)

// Edits are the container edits of devices, as specs-go v1.1.1 has them.
type Edits struct {
	Nodes  []Node
	Env    []string // NAME=value
	Mounts []edits.Mount
	Hooks  []edits.Hook
	GIDs   []uint32 // of the host
}

// Merge puts the edits of devices together: first what a spec has for all its
// devices, then the devices' own, in the order asked.
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

// add takes over container edits of a spec, each node and hook once.
func (e *Edits) add(file string, v rawjson.Value) error {
	for _, part := range []struct {
		key  string
		kind rawjson.Kind
		add  func(rawjson.Value) error
	}{
		{"deviceNodes", rawjson.Array, func(v rawjson.Value) error { return e.addNode(file, v) }},
		{"mounts", rawjson.Array, e.addMount},
		{"hooks", rawjson.Array, e.addHook},
		{"env", rawjson.Array, e.addEnv},
		{"additionalGids", rawjson.Array, e.addGID},
		{"netDevices", rawjson.Array, unsupported},
		{"intelRdt", rawjson.Object, unsupported},
	} {
		member, err := v.Of(part.key, part.kind)
		if err == nil {
			if err = each(member, part.add); err != nil {
				err = fmt.Errorf("%s: %w", part.key, err)
			}
		}
		if err != nil {
			return fmt.Errorf("cannot use CDI spec %s: %w", file, err)
		}
	}
	return nil
}

// each adds an object, or the elements of a list.
func each(v rawjson.Value, add func(rawjson.Value) error) error {
	if v.Kind() == rawjson.Object {
		return add(v)
	}
	for element := range v.Elements() {
		if err := add(element); err != nil {
			return err
		}
	}
	return nil
}

func unsupported(rawjson.Value) error {
	return errors.New("this wrapper can't apply that; only deviceNodes, mounts, env, hooks and additionalGids")
}

package cdispec

import (
	"errors"
	"fmt"
	"slices"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
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
	}{
		{"deviceNodes", rawjson.Array}, {"mounts", rawjson.Array}, {"hooks", rawjson.Array}, {"env", rawjson.Array},
		{"additionalGids", rawjson.Array}, {"netDevices", rawjson.Array}, {"intelRdt", rawjson.Object},
	} {
		member, err := v.Of(part.key, part.kind)
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

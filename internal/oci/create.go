package oci

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"concourse-ci-machine/internal/oci/rawjson"
)

// create edits the bundle's config.json where the container gets GPUs or
// folders, and leaves a marker for exec where that needs one, in place of that
// of an earlier container of the same name.
func (w wrapper) create(c Config, call Call) error {
	b, data, k, err := w.change(c, call)
	if b != nil {
		defer b.close()
	}
	marks := markers{c.State, w.euid}
	if err != nil || k.none() {
		err = cmp.Or(err, marks.forget(call.ID))
	} else {
		err = marks.save(call.ID, k)
	}
	if err != nil || data == nil {
		return err
	}
	return b.replace(data)
}

// change returns the open bundle, nil where it is not looked at; its new
// config.json, nil where nothing changes; and what exec has to add.
func (w wrapper) change(c Config, call Call) (b *bundle, data []byte, k marker, err error) {
	if len(c.Devices) == 0 && c.Folders == nil {
		return nil, nil, k, nil
	}
	if b, err = openBundle(call.Bundle, w.euid); err != nil {
		return nil, nil, k, err
	}
	if data, err = b.read(w.euid); err != nil {
		return b, nil, k, err
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return b, nil, k, fmt.Errorf("cannot decode %s: %w [container %s]", configName, err, call.ID)
	}
	e, err := w.decideAll(c, doc)
	if err != nil {
		return b, nil, k, fmt.Errorf("%w [container %s]", err, call.ID)
	}
	if e.none() {
		return b, nil, k, nil
	}
	if data, err = e.apply(doc); err != nil {
		return b, nil, k, fmt.Errorf("cannot edit %s: %w [container %s]", configName, err, call.ID)
	}
	return b, data, marker{call.Bundle, e.groups, e.env}, nil
}

// decideAll says what this container gets.
func (w wrapper) decideAll(c Config, doc *rawjson.Doc) (*edits, error) {
	f, err := readFacts(doc.Root())
	if err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	e := &edits{}
	if len(c.Devices) > 0 && (c.Containers == All || f.task) {
		if err := w.addGPUs(e, c, f); err != nil {
			return nil, err
		}
	}
	if c.Folders != nil && (c.Folders.Containers == All || f.task) {
		mounts, _, err := w.folderMounts(*c.Folders)
		if err != nil {
			return nil, err
		}
		e.addFolders(f, mounts)
	}
	return e, nil
}

// addGPUs adds the unit's GPUs, or those of them that the task asks for. A task
// that asks for none is one without a GPU in every respect.
func (w wrapper) addGPUs(e *edits, c Config, f facts) error {
	specs, err := w.readSpecs(c.Specs)
	if err != nil {
		return err
	}
	devices, err := find(specs, c.Devices)
	if err != nil {
		return err
	}
	own, narrowed, err := visible(specs, devices, c.Visible, f.env)
	if err != nil {
		return err
	}
	if narrowed {
		if devices = own; len(devices) == 0 {
			return nil
		}
	}
	all, err := merge(devices)
	if err != nil {
		return err
	}
	if err := w.decide(e, f, all.nodes, c.Nodes); err != nil {
		return err
	}
	e.addCDI(f, all)
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		e.env.defaults = append(e.env.defaults, name+"="+c.Env[name])
	}
	return nil
}

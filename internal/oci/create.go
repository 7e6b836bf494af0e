package oci

import (
	"cmp"
	"fmt"
	"slices"

	"concourse-ci-machine/internal/oci/rawjson"
)

// create edits the bundle's config.json where the container gets GPUs or
// folders, and leaves a marker for exec where that needs one, in place of that
// of an earlier container of the same name.
//
// GPUs are leased before the marker and config.json say anything of them, and
// both before runc runs: whatever ends this in between, the lease ends with it,
// and no container can have a GPU that it did not lease. It returns what gives
// the lease back, for a caller who does not become runc after all.
func (w wrapper) create(c settings, call Call) (giveBack func(), err error) {
	b, parts, k, err := w.change(c, call)
	defer b.close()
	giveBack = func() { w.giveBack(c, call, k) }
	marks := w.markers(c)
	if err != nil || k.none() {
		err = cmp.Or(err, marks.forget(call.ID))
	} else {
		err = marks.save(call.ID, k)
	}
	if err == nil && parts != nil {
		err = b.replace(parts)
	}
	if err != nil {
		giveBack()
	}
	return giveBack, err
}

// change returns the open bundle, noBundle where it is not looked at; its new
// config.json, nil where nothing changes; and what exec has to add.
func (w wrapper) change(c settings, call Call) (b bundle, parts [][]byte, k marker, err error) {
	if len(c.Devices) == 0 && c.Folders == nil {
		return noBundle, nil, k, nil
	}
	if b, err = openBundle(call.Bundle, w.euid); err != nil {
		return noBundle, nil, k, err
	}
	data, err := b.read(w.euid, w.mem)
	if err != nil {
		return b, nil, k, err
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return b, nil, k, fmt.Errorf("cannot decode %s: %w [container %s]", configName, err, call.ID)
	}
	e, err := w.decideAll(c, call, b, doc)
	k.lease = e.lease
	if err != nil {
		return b, nil, k, fmt.Errorf("%w [container %s]", err, call.ID)
	}
	if e.none() {
		return b, nil, k, nil
	}
	if parts, err = e.apply(doc, w.mem.rest()); err != nil {
		return b, nil, k, fmt.Errorf("cannot edit %s: %w [container %s]", configName, err, call.ID)
	}
	k.bundle, k.groups, k.env = call.Bundle, e.groups, e.env
	return b, parts, k, nil
}

// decideAll says what this container gets. With an error, edits.lease still has
// what was leased before.
func (w wrapper) decideAll(c settings, call Call, b bundle, doc *rawjson.Doc) (e edits, err error) {
	f, err := readFacts(w.mem, doc.Root())
	if err != nil {
		return e, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	const usual = 32
	e = edits{paths: room(&w.mem.paths, usual), mounts: room(&w.mem.mounts, usual), rules: room(&w.mem.rules, usual)}
	if len(c.Devices) > 0 && (c.Containers == All || f.task) {
		if err := w.addGPUs(&e, c, call, b, doc, f); err != nil {
			return e, err
		}
	}
	if c.Folders != nil && (c.Folders.Containers == All || f.task) {
		mounts, _, err := w.folderMounts(*c.Folders)
		if err != nil {
			return e, err
		}
		e.addFolders(f, mounts)
	}
	return e, nil
}

// addGPUs adds the unit's GPUs, or those of them that the task asks for and,
// where they are exclusive, has leased. A task that asks for none is one without
// a GPU in every respect.
func (w wrapper) addGPUs(e *edits, c settings, call Call, b bundle, doc *rawjson.Doc, f facts) error {
	specs, err := w.readSpecs(c.Specs)
	if err != nil {
		return err
	}
	devices, err := find(w.mem, specs, c.Devices)
	if err != nil {
		return err
	}
	var own []chosen
	narrowed := c.Leases != nil
	if narrowed {
		own, e.lease, err = w.leaseGPUs(c, call, doc, specs, devices, f.env)
	} else {
		own, narrowed, err = share(specs, devices, c.Visible, f.env)
	}
	if err != nil {
		return err
	}
	if narrowed {
		if devices = own; len(devices) == 0 {
			return nil
		}
	}
	all, err := merge(w.mem, devices)
	if err != nil {
		return err
	}
	if err := w.decide(e, f, all.nodes, c.Nodes); err != nil {
		return err
	}
	e.addCDI(f, all)
	ofImage, err := b.rootfsDefaults(c.rootfsEnv, doc, f)
	if err != nil {
		return fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	e.env.defaults = slices.Concat(c.env, ofImage) // the earlier one counts
	return nil
}

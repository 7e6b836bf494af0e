package oci

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/visible"
)

// create edits the bundle's config.json where the container gets GPUs or
// folders, and leaves a marker for exec where that needs one, in place of that
// of an earlier container of the same name.
//
// GPUs are leased before the marker and config.json say anything of them, and
// both before runc runs: whatever ends this in between, the lease ends with it,
// and no container can have a GPU that it did not lease. It returns what ends the
// lease, for a caller who does not become runc after all.
func (w *wrapper) create(s *settings, c *cmdline.Call) (rollback func(), err error) {
	b, config, k, err := w.change(s, c)
	defer b.close()
	rollback = func() { w.endLease(s, c, k) }
	marks := w.markers(s.State)
	if err != nil || k.none() {
		err = cmp.Or(err, marks.remove(c.ID))
	} else {
		err = marks.save(c.ID, k)
	}
	if err == nil && config != nil {
		err = b.replace(config)
	}
	if err != nil {
		rollback()
	}
	return rollback, err
}

// change returns the open bundle, noBundle where it is not looked at; its new
// config.json in pieces, none where nothing changes; and what exec has to add.
func (w *wrapper) change(s *settings, c *cmdline.Call) (b bundle, config [][]byte, k marker, err error) {
	if len(s.Devices) == 0 && s.Folders == nil && s.Tools == "" && s.CACertificates == "" && s.Missing == "" {
		return noBundle, nil, k, nil
	}
	if b, err = openBundle(c.Bundle, w.owner()); err != nil {
		return noBundle, nil, k, err
	}
	data, err := b.read(w.owner())
	if err != nil {
		return b, nil, k, err
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return b, nil, k, fmt.Errorf("cannot decode %s: %w [container %s]", configName, err, c.ID)
	}
	var e edits.Edits
	if e, k.lease, err = w.decide(s, c, b, doc); err != nil {
		return b, nil, k, fmt.Errorf("%w [container %s]", err, c.ID)
	}
	k.bundle, k.process = c.Bundle, e.Process
	if e.None() {
		return b, nil, k, nil
	}
	if config, err = e.Apply(doc); err != nil {
		return b, nil, k, fmt.Errorf("cannot edit %s: %w [container %s]", configName, err, c.ID)
	}
	return b, config, k, nil
}

// decide says what this container gets. It returns the lease with an error, too.
func (w *wrapper) decide(s *settings, c *cmdline.Call, b bundle, doc *rawjson.Doc) (e edits.Edits, h held, err error) {
	f, err := readFacts(doc.Root())
	if err != nil {
		return e, h, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	// Any engine's container may have a mount at a task's place.
	f.task = f.task && !w.foreign
	if h, err = w.giveGPUs(&e, s, c, b, doc, f); err != nil {
		return e, h, err
	}
	if err := w.bench(&e, s, c, b, f, h); err != nil {
		return e, h, err
	}
	if len(s.Devices) == 0 && s.Missing != "" && f.task && visible.Asks(s.Visible, f.env) {
		return e, h, fmt.Errorf("cannot give the task a GPU, as it asks for: %s", s.Missing)
	}
	if s.Tools != "" && f.task {
		w.addTools(&e, f, s.Tools)
	}
	if s.CACertificates != "" && f.task {
		addCertificates(&e, f, s.CACertificates)
	}
	// Another engine's containers have folders of their own.
	if s.Folders != nil && (s.Folders.Containers == All && !w.foreign || f.task) {
		mounts, _, err := w.folderMounts(*s.Folders)
		if err != nil {
			return e, h, err
		}
		addFolders(&e, f, mounts)
	}
	return e, h, nil
}

// giveGPUs adds GPUs to a container that asks for them, and leases those that it has already.
func (w *wrapper) giveGPUs(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, doc *rawjson.Doc, f facts) (held, error) {
	put, err := w.putByEngine(s, doc.Root())
	switch {
	case err != nil:
		return held{}, err
	case len(put) > 0:
		return w.leasePut(s, c, doc, put)
	case len(s.Devices) > 0 && f.asks(s, w.foreign):
		return w.addGPUs(e, s, c, b, doc, f)
	}
	return held{}, w.unserved(s, f)
}

// addGPUs adds the unit's GPUs, or those of them that the task asks for and,
// where they are exclusive, has leased. A task that asks for none is one without
// a GPU in every respect.
func (w *wrapper) addGPUs(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, doc *rawjson.Doc, f facts) (h held, err error) {
	specs, err := w.readSpecs(s.Specs)
	if err != nil {
		return h, err
	}
	devices, err := cdispec.Find(specs, s.Devices)
	if err != nil {
		return h, err
	}
	if s.Leases == nil {
		devices, err = visible.Shared(specs, devices, s.Visible, f.env, s.withheld(w.readWithheld(s)))
	} else {
		devices, h, err = w.leaseGPUs(s, c, doc, specs, devices, f.env)
	}
	if err != nil || len(devices) == 0 {
		return h, err
	}
	all, err := cdispec.Merge(devices)
	if err != nil {
		return h, err
	}
	if err := w.addNodes(e, f, all.Nodes, s.Nodes); err != nil {
		return h, err
	}
	addCDI(e, f, all)
	if err := w.describe(e, c, b, f, specs, devices); err != nil {
		return h, err
	}
	ofImage, err := b.rootfsDefaults(s.rootfsEnv, doc, f)
	if err != nil {
		return h, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	e.Process.Env.Defaults = ofImage
	if !w.foreign { // it may hold a token that is the tasks' alone
		e.Process.Env.Defaults = slices.Concat(s.env, ofImage)
	}
	return h, nil
}

// readSpecs reads the spec files that the config names.
func (w *wrapper) readSpecs(files []string) (specs []*cdispec.Spec, err error) {
	for _, file := range files {
		data, err := w.readTrusted(file)
		if errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("cannot give the task a GPU: there is no CDI spec %s; %s", file, w.comesBack())
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read CDI spec %s: %w", file, err)
		}
		s, err := cdispec.Decode(file, data)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// addCDI takes over what CDI specs want besides device nodes.
func addCDI(e *edits.Edits, f facts, c cdispec.Edits) {
	// Parents before what is in them; the container's own mounts stay in their
	// order, before these.
	slices.SortStableFunc(c.Mounts, func(a, b edits.Mount) int {
		return strings.Count(a.Destination, "/") - strings.Count(b.Destination, "/")
	})
	for _, m := range c.Mounts {
		if !e.Has(m.Destination) {
			e.Mounts = append(e.Mounts, m)
		}
	}
	e.Hooks, e.Process.Env.Set = c.Hooks, c.Env
	for _, gid := range c.GIDs {
		// Without a number inside it could only stop the container, and the
		// policy has opened the nodes without it.
		if inside, ok := f.containerGID(gid); ok {
			e.Process.AddGroup(inside)
		}
	}
}

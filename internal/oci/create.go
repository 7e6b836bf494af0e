package oci

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/visible"
)

// create edits the bundle's config.json if the container gets GPUs or folders. It leaves a
// marker for exec if exec needs one, and otherwise removes the marker of an earlier
// container with this name.
//
// GPUs are leased before the marker and config.json mention them, and both are written
// before runc runs. If this process is killed in between, the lease ends with it, and no
// container can have a GPU that it did not lease. create returns a function that ends the
// lease, for a caller that does not become runc after all.
func (w *wrapper) create(s *settings, c *cmdline.Call) (rollback func(), err error) {
	b, made, err := w.change(s, c)
	defer b.close()
	k := made.marker
	rollback = func() { w.endLease(s, c, k) }
	marks := w.markers(s.State)
	if err != nil || k.empty() {
		err = cmp.Or(err, marks.remove(c.ID))
	} else {
		err = marks.save(c.ID, k)
	}
	if err == nil && made.config != nil {
		err = b.replace(made.config)
	}
	if err != nil {
		rollback()
	}
	return rollback, err
}

// creation holds the pieces of a new config.json, none if nothing changes, and the marker
// for exec.
type creation struct {
	config [][]byte
	marker marker
}

// change returns the open bundle, noBundle if it is not needed, and what create writes. The
// marker has the lease even with an error.
func (w *wrapper) change(s *settings, c *cmdline.Call) (b bundle, made creation, err error) {
	if len(s.GPUs) == 0 && s.Folders == nil && s.Tools == "" && s.CACertificates == "" && s.Missing == "" &&
		s.Volumes == "" {
		return noBundle, made, nil
	}
	if b, err = openBundle(c.Bundle, w.owner()); err != nil {
		return noBundle, made, err
	}
	data, err := b.read(w.owner())
	if err != nil {
		return b, made, err
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return b, made, fmt.Errorf("cannot decode %s: %w [container %s]", configName, err, c.ID)
	}
	var e edits.Edits
	if e, made.marker.lease, err = w.decide(s, c, b, doc); err != nil {
		return b, made, fmt.Errorf("%w [container %s]", err, c.ID)
	}
	made.marker.bundle, made.marker.process = c.Bundle, e.Process
	if e.None() {
		return b, made, nil
	}
	if made.config, err = e.Apply(doc); err != nil {
		return b, made, fmt.Errorf("cannot edit %s: %w [container %s]", configName, err, c.ID)
	}
	return b, made, nil
}

// decide returns the edits of this container, and its lease even with an error.
func (w *wrapper) decide(s *settings, c *cmdline.Call, b bundle, doc *rawjson.Doc) (e edits.Edits, h heldLease,
	err error) {
	f, err := readFacts(doc.Root())
	if err != nil {
		return e, h, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	// Containers of other engines may have a mount at a task's work folder.
	f.task = f.task && !w.foreign
	if err := w.waitForSpace(s, f); err != nil {
		return e, h, err
	}
	if h, err = w.giveGPUs(&e, s, c, b, doc, f); err != nil {
		return e, h, err
	}
	if err := w.fixClocks(&e, s, c, b, f, h); err != nil {
		return e, h, err
	}
	if len(s.GPUs) == 0 && s.Missing != "" && f.task && visible.TaskRequestsGPU(s.Visible, f.env) {
		return e, h, fmt.Errorf("cannot give the task the GPU that it requests: %s", s.Missing)
	}
	if s.Tools != "" && f.task {
		w.addTools(&e, f, s.Tools)
	}
	if s.CACertificates != "" && f.task {
		addCertificates(&e, f, s.CACertificates)
	}
	// Containers of other engines bring their own folders.
	if s.Folders != nil && (s.Folders.Containers == All && !w.foreign || f.task) {
		mounts, _, err := w.folderMounts(*s.Folders)
		if err != nil {
			return e, h, err
		}
		addFolders(&e, f, mounts)
	}
	return e, h, nil
}

// giveGPUs adds GPUs to a container that requests them, or leases GPUs that its engine has
// added.
func (w *wrapper) giveGPUs(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, doc *rawjson.Doc,
	f facts) (heldLease, error) {
	put, err := w.engineDevices(s, doc.Root())
	switch {
	case err != nil:
		return heldLease{}, err
	case len(put) > 0:
		return w.leaseEngineDevices(s, c, doc, put)
	case len(s.GPUs) > 0 && f.requestsGPUs(s, w.foreign):
		return w.addGPUs(e, s, c, b, doc, f)
	}
	return heldLease{}, w.refuseUnserved(s, f)
}

// addGPUs adds the unit's GPUs, narrowed to those that the task requests and, if GPUs are
// exclusive, has leased. A task that requests none is treated in every respect as a task
// without a GPU.
func (w *wrapper) addGPUs(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, doc *rawjson.Doc,
	f facts) (h heldLease, err error) {
	gpus, err := w.findGPUs(s)
	if err != nil {
		return h, err
	}
	var own []int
	if s.Leases == nil {
		excluded := w.readAdmission(s).Excluded
		w.addMissing(excluded, gpus)
		own, err = visible.SelectShared(gpus, s.Visible, f.env, excluded)
		if _, again := errors.AsType[visible.ExcludedError](err); again {
			err = w.runAgain(err)
		}
	} else {
		if own, h, err = w.leaseGPUs(s, c, doc, gpus, f.env); err == nil && !h.empty() {
			h.image = b.imageDigest(doc)
		}
	}
	if err != nil || len(own) == 0 {
		return h, err
	}
	given := make([]visible.GPU, len(own))
	devices := make([]cdispec.Device, len(own))
	for i, g := range own {
		given[i], devices[i] = gpus[g], gpus[g].Device
	}
	all, err := cdispec.Merge(devices)
	if err != nil {
		return h, err
	}
	if err := w.addNodes(e, f, all.Nodes, s.Nodes); err != nil {
		return h, err
	}
	addCDI(e, f, all)
	if err := w.describeNested(e, c, b, f, given); err != nil {
		return h, err
	}
	ofImage, err := b.rootfsDefaults(s.rootfsEnv, doc, f)
	if err != nil {
		return h, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	e.Process.Env.Defaults = ofImage
	if !w.foreign { // it may hold a token that is only for tasks
		e.Process.Env.Defaults = slices.Concat(s.env, ofImage)
	}
	return h, nil
}

// readSpecs reads the spec files that the config names.
func (w *wrapper) readSpecs(files []string) (specs []*cdispec.Spec, err error) {
	for _, file := range files {
		data, err := w.readTrusted(file)
		if errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("cannot give the task a GPU: CDI spec %s is missing; %s", file,
				w.missingSpecRemedy())
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

// addCDI adds the edits of CDI specs other than device nodes.
func addCDI(e *edits.Edits, f facts, c cdispec.Edits) {
	// Parents come before the mounts inside them. The container's own mounts keep their
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
		// A group without a number inside could only stop the container, and the policy has
		// opened the nodes without it.
		if inside, ok := f.containerGID(gid); ok {
			e.Process.AddGroup(inside)
		}
	}
}

// rootfsEnv holds one entry of Config.RootfsEnv.
type rootfsEnv struct {
	dir string // absolute and clean
	env []string
}

func decodeRootfsEnv(v rawjson.Value) (all []rootfsEnv, err error) {
	return all, eachField(v, func(dir string, v rawjson.Value) error {
		if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" || strings.IndexByte(dir, 0) >= 0 {
			return fmt.Errorf("%q is not the clean absolute path of a directory", dir)
		}
		env, invalid, err := decodePairs(v)
		if err != nil {
			return err
		}
		if len(invalid) > 0 {
			return fmt.Errorf("%q can't be set as an environment variable", invalid[0])
		}
		all = append(all, rootfsEnv{dir, env})
		return nil
	})
}

// rootfsDefaults returns the environment for directories of the container's image. It is a
// convenience: an image that cannot be read gets none of it.
func (b bundle) rootfsDefaults(all []rootfsEnv, doc *rawjson.Doc, f facts) (env []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	fd, err := b.openRootfs(doc)
	if _, ok := errors.AsType[unix.Errno](err); ok {
		return nil, nil // runc reports the problem
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for _, e := range all {
		if _, mounted := f.mountAt(e.dir); mounted || hasDir(fd, e.dir) {
			env = append(env, e.env...)
		}
	}
	return env, nil
}

// hasDir reports whether a root file system has the directory. Nothing in it is read.
func hasDir(rootfs int, dir string) bool {
	fd, err := openInRootfs(rootfs, dir[1:], unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

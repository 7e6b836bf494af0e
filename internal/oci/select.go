package oci

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// chosen is one device of a spec that the container gets.
type chosen struct {
	spec   *cdiSpec
	device cdiDevice
}

// readSpecs reads the spec files that the config names.
func (w wrapper) readSpecs(files []string) ([]cdiSpec, error) {
	specs := make([]cdiSpec, 0, len(files))
	for _, file := range files {
		data, err := w.readTrusted(file)
		if errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("cannot give the task a GPU: there is no CDI spec %s; the status of the unit (juju status) says how it comes back", file)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read CDI spec %s: %w", file, err)
		}
		s, err := decodeCDI(w.mem, file, data)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// find looks the unit's devices up by their full CDI names.
func find(mem *memory, specs []cdiSpec, names []string) ([]chosen, error) {
	devices := room(&mem.chosen, len(names))
	for _, full := range names {
		kind, name, _ := strings.Cut(full, "=")
		c, ok := lookUp(specs, kind, name)
		if !ok {
			return nil, fmt.Errorf("cannot find GPU %s: the CDI specs have of %s: %s", full, kind, namesOf(specs, kind))
		}
		devices = append(devices, c)
	}
	return devices, nil
}

func lookUp(specs []cdiSpec, kind, name string) (chosen, bool) {
	for i := range specs {
		if specs[i].kind != kind {
			continue
		}
		for k := range specs[i].devices {
			if d := &specs[i].devices[k]; d.name == name {
				return chosen{&specs[i], *d}, true
			}
		}
	}
	return chosen{}, false
}

func namesOf(specs []cdiSpec, kind string) string {
	var names []string
	for _, s := range specs {
		for _, d := range s.devices {
			if s.kind == kind {
				names = append(names, d.name)
			}
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// merge puts the edits of devices together: first what a spec has for all its
// devices, then the devices' own, in the order asked.
func merge(mem *memory, devices []chosen) (all cdiEdits, err error) {
	var used []*cdiSpec
	all.nodes = room(&mem.nodes, 2*len(devices)+8) // as many as an AMD GPU has
	for _, c := range devices {
		known := false
		for _, s := range used {
			known = known || s == c.spec
		}
		if !known {
			used = append(used, c.spec)
			if err := all.add(c.spec.file, c.spec.edits); err != nil {
				return cdiEdits{}, err
			}
		}
		if err := all.add(c.spec.file, c.device.edits); err != nil {
			return cdiEdits{}, fmt.Errorf("%w [device %s]", err, c.device.name)
		}
	}
	return all, nil
}

// Package cdispec reads CDI specs (container-device-interface, SPEC.md) as far as the
// wrapper applies them. It rejects every other edit instead of dropping it silently. It
// opens no files and no devices.
//
// The CDI library is not used here: it costs 0.3 ms at each start, and its injection fails
// in user namespaces.
package cdispec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// Spec holds one spec file.
type Spec struct {
	File    string
	Kind    string
	Devices []Device
	edits   rawjson.Value // containerEdits of the spec
}

// Device describes one device of a spec. Its edits are decoded on demand.
type Device struct {
	Spec  *Spec
	Name  string
	PCI   string // "" if its name is not a slot
	edits rawjson.Value
}

// All is the name that CDI generators give to all devices together.
const All = "all"

// Decode reads a spec file's content.
func Decode(file string, data []byte) (*Spec, error) {
	s := &Spec{File: file}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("cannot decode CDI spec %s: %w", file, err)
	}
	version, err := s.decode(doc.Root())
	if err != nil {
		return nil, fmt.Errorf("cannot decode CDI spec %s: %w", file, err)
	}
	if !strings.HasPrefix(version, "0.") && !strings.HasPrefix(version, "1.") {
		return nil, fmt.Errorf("cannot use CDI spec %s: its cdiVersion %q is not 0.x or 1.x", file, version)
	}
	if !strings.Contains(s.Kind, "/") {
		return nil, fmt.Errorf("cannot use CDI spec %s: its kind %q is not vendor/class", file, s.Kind)
	}
	return s, nil
}

func (s *Spec) decode(root rawjson.Value) (version string, err error) {
	if version, err = root.StringOf("cdiVersion"); err != nil {
		return "", err
	}
	if s.Kind, err = root.StringOf("kind"); err != nil {
		return "", err
	}
	if s.edits, err = root.Member("containerEdits", rawjson.Object); err != nil {
		return "", err
	}
	devices, err := root.Member("devices", rawjson.Array)
	if err != nil {
		return "", err
	}
	s.Devices = make([]Device, 0, devices.Len())
	for v := range devices.Elements() {
		d := Device{Spec: s}
		if d.Name, err = v.StringOf("name"); err != nil {
			return "", fmt.Errorf("devices: %w", err)
		}
		d.PCI = pci.OfSlot(d.Name)
		if d.edits, err = v.Member("containerEdits", rawjson.Object); err != nil {
			return "", fmt.Errorf("device %s: %w", d.Name, err)
		}
		s.Devices = append(s.Devices, d)
	}
	return version, nil
}

// Nodes returns the device's own nodes, sorted by path. Their paths distinguish devices.
func (d Device) Nodes() ([]Node, error) {
	list, err := d.edits.Member("deviceNodes", rawjson.Array)
	own := Edits{Nodes: make([]Node, 0, list.Len())}
	for n := range list.Elements() {
		if err == nil {
			err = own.addNode(d.Spec.File, n)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use CDI spec %s: %w", d.Spec.File, fmt.Errorf("device %s: %w", d.Name, err))
	}
	slices.SortFunc(own.Nodes, func(a, b Node) int { return strings.Compare(a.Path, b.Path) })
	return own.Nodes, nil
}

// Find returns devices by their full CDI names.
func Find(specs []*Spec, names []string) (devices []Device, err error) {
	for _, full := range names {
		kind, name, _ := strings.Cut(full, "=")
		d, ok := lookUp(specs, kind, name)
		if !ok {
			return nil, fmt.Errorf("cannot find GPU %s: the CDI specs list for %s: %s",
				full, kind, namesOf(specs, kind))
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func lookUp(specs []*Spec, kind, name string) (Device, bool) {
	for _, s := range specs {
		if s.Kind != kind {
			continue
		}
		if i := slices.IndexFunc(s.Devices, func(d Device) bool { return d.Name == name }); i >= 0 {
			return s.Devices[i], true
		}
	}
	return Device{}, false
}

func namesOf(specs []*Spec, kind string) string {
	var names []string
	for _, s := range specs {
		for _, d := range s.Devices {
			if s.Kind == kind {
				names = append(names, d.Name)
			}
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func isCleanAbs(p string) bool { return filepath.IsAbs(p) && filepath.Clean(p) == p }

package oci

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// cdiSpec is the part of a CDI spec (container-device-interface SPEC.md) that
// the wrapper uses. The CDI library itself is not used here: it costs 0.3 ms
// at each start, and its way of injecting nodes fails in user namespaces.
type cdiSpec struct {
	file    string
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
	Edits   cdiEdits    `json:"containerEdits"`
}

type cdiDevice struct {
	Name  string   `json:"name"`
	Edits cdiEdits `json:"containerEdits"`
}

// cdiEdits leaves out additionalGids, which the device policy decides itself.
type cdiEdits struct {
	Nodes []cdiNode `json:"deviceNodes"`

	Env    []json.RawMessage `json:"env"`
	Mounts []json.RawMessage `json:"mounts"`
	Hooks  []json.RawMessage `json:"hooks"`
	Nets   []json.RawMessage `json:"netDevices"`
	RDT    json.RawMessage   `json:"intelRdt"`
}

// cdiNode says which node of the host appears where. Numbers of 0 are not
// given. Mode, owner and permissions are not read: the policy sets them.
type cdiNode struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath"`
	Type     string `json:"type"`
	Major    int64  `json:"major"`
	Minor    int64  `json:"minor"`

	spec string // the file, for messages
}

func decodeCDI(file string, data []byte) (cdiSpec, error) {
	s := cdiSpec{file: file}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("cannot decode CDI spec %s: %w", file, err)
	}
	if !strings.HasPrefix(s.Version, "0.") && !strings.HasPrefix(s.Version, "1.") {
		return s, fmt.Errorf("cannot use CDI spec %s: its cdiVersion %q is not 0.x or 1.x", file, s.Version)
	}
	if !strings.Contains(s.Kind, "/") {
		return s, fmt.Errorf("cannot use CDI spec %s: its kind %q is not vendor/class", file, s.Kind)
	}
	return s, nil
}

// resolve returns the nodes of the named devices, each path once: first what
// a spec has for all its devices, then the devices' own, in the order asked.
func resolve(specs []cdiSpec, names []string) ([]cdiNode, error) {
	var edits []cdiEdits
	var files []string
	add := func(s cdiSpec, e cdiEdits) {
		edits, files = append(edits, e), append(files, s.file)
	}
	used := map[string]bool{}
	for _, full := range names {
		s, d, err := find(specs, full)
		if err != nil {
			return nil, err
		}
		if !used[s.file] {
			used[s.file] = true
			add(s, s.Edits)
		}
		add(s, d.Edits)
	}
	var nodes []cdiNode
	for i, e := range edits {
		if err := e.check(files[i]); err != nil {
			return nil, err
		}
		for _, n := range e.Nodes {
			n.spec = files[i]
			if n.HostPath == "" {
				n.HostPath = n.Path
			}
			known := slices.IndexFunc(nodes, func(o cdiNode) bool { return o.Path == n.Path })
			if known < 0 {
				nodes = append(nodes, n)
			} else if nodes[known].HostPath != n.HostPath || nodes[known].Major != n.Major || nodes[known].Minor != n.Minor {
				return nil, fmt.Errorf("cannot use CDI spec %s: it describes %s in two ways", n.spec, n.Path)
			}
		}
	}
	return nodes, nil
}

func find(specs []cdiSpec, full string) (cdiSpec, cdiDevice, error) {
	kind, name, _ := strings.Cut(full, "=")
	var there []string
	for _, s := range specs {
		if s.Kind != kind {
			continue
		}
		for _, d := range s.Devices {
			if d.Name == name {
				return s, d, nil
			}
			there = append(there, d.Name)
		}
	}
	if len(there) == 0 {
		there = []string{"none"}
	}
	return cdiSpec{}, cdiDevice{}, fmt.Errorf("cannot find GPU %s: the CDI specs have of %s: %s",
		full, kind, strings.Join(there, ", "))
}

// check refuses what would otherwise be left out in silence.
func (e cdiEdits) check(file string) error {
	if string(e.RDT) == "null" {
		e.RDT = nil
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"env", len(e.Env)}, {"mounts", len(e.Mounts)}, {"hooks", len(e.Hooks)}, {"netDevices", len(e.Nets)}, {"intelRdt", len(e.RDT)}} {
		if f.n > 0 {
			return fmt.Errorf("cannot use CDI spec %s: it has %s, and only deviceNodes can be applied", file, f.name)
		}
	}
	for _, n := range e.Nodes {
		for _, p := range []string{n.Path, n.HostPath} {
			if p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p) || n.Path == "" {
				return fmt.Errorf("cannot use CDI spec %s: device node path %q is not absolute and clean", file, p)
			}
		}
		if n.Type != "" && n.Type != "c" && n.Type != "u" {
			return fmt.Errorf("cannot use CDI spec %s: %s has type %q, only c can be applied", file, n.Path, n.Type)
		}
	}
	return nil
}

package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

// ErrMissing is the error of ReadSpec without a file.
var ErrMissing = errors.New("the file is missing")

// ReadSpec reads a description of any tool, in JSON or YAML.
func ReadSpec(r host.Root, file string) (*specs.Spec, error) {
	st, err := r.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read %s: %w", file, ErrMissing)
	}
	if err == nil && st.Size() > specLimit {
		err = fmt.Errorf("it has %d bytes, more than %d", st.Size(), specLimit)
	}
	var data []byte
	if err == nil {
		data, err = r.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	s, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", file, err)
	}
	return s, nil
}

// Decode reads a description and validates it against CDI's rules.
func Decode(data []byte) (*specs.Spec, error) {
	s, err := cdilib.ParseSpec(data)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errors.New("it is empty")
	}
	for _, nodes := range append(deviceNodes(s), s.ContainerEdits.DeviceNodes) {
		if slices.Contains(nodes, nil) {
			return nil, errors.New("a device node is null")
		}
	}
	return s, validate(s)
}

func deviceNodes(s *specs.Spec) (all [][]*specs.DeviceNode) {
	for _, d := range s.Devices {
		all = append(all, d.ContainerEdits.DeviceNodes)
	}
	return all
}

// Differences lists the differences between a description and the machine; nil means a
// machine without GPUs. It compares the nodes that a container gets under each name, and not
// who may open them there. So the file of another tool can be correct, even with /dev/kfd in
// each device and without names by unique id or slot.
func Differences(file, machine *specs.Spec) (diffs []string) {
	if file.Kind != Kind {
		return []string{fmt.Sprintf("it describes %s, not %s", file.Kind, Kind)}
	}
	if machine == nil {
		machine = &specs.Spec{}
	}
	has, want := given(file), given(machine)
	names := map[string]bool{byIndex: true}
	for _, d := range file.Devices {
		names[kindOf(d.Name)] = true
	}
	for _, d := range machine.Devices {
		if _, there := has[d.Name]; !there && names[kindOf(d.Name)] {
			diffs = append(diffs, fmt.Sprintf("%s=%s is missing", Kind, d.Name))
		}
	}
	for _, d := range file.Devices {
		nodes, there := want[d.Name]
		if !there {
			diffs = append(diffs, fmt.Sprintf("%s=%s: the machine has no such GPU", Kind, d.Name))
			continue
		}
		for _, text := range unlike(has[d.Name], nodes) {
			diffs = append(diffs, fmt.Sprintf("%s=%s: %s", Kind, d.Name, text))
		}
	}
	return diffs
}

const byIndex, byID, bySlot = "index", "unique id", "slot"

// kindOf returns the kind of a name. The name of all GPUs belongs to the indexes.
func kindOf(name string) string {
	switch {
	case strings.HasPrefix(name, "GPU-"):
		return byID
	case pci.OfSlot(name) != "":
		return bySlot
	}
	return byIndex
}

// given returns the nodes that a container gets under each name.
func given(s *specs.Spec) map[string][]*specs.DeviceNode {
	of := map[string][]*specs.DeviceNode{}
	for _, d := range s.Devices {
		of[d.Name] = slices.Concat(s.ContainerEdits.DeviceNodes, d.ContainerEdits.DeviceNodes)
	}
	return of
}

// unlike compares the nodes of one name, ignoring duplicates.
func unlike(has, want []*specs.DeviceNode) (texts []string) {
	find := func(in []*specs.DeviceNode, path string) *specs.DeviceNode {
		if i := slices.IndexFunc(in, func(n *specs.DeviceNode) bool { return n.Path == path }); i >= 0 {
			return in[i]
		}
		return nil
	}
	for _, w := range want {
		n := find(has, w.Path)
		switch {
		case n == nil:
			texts = append(texts, w.Path+" is missing")
		case n.HostPath != "" && n.HostPath != n.Path:
			texts = append(texts, fmt.Sprintf("%s is %s of the host", n.Path, n.HostPath))
		case n.Major != w.Major || n.Minor != w.Minor:
			texts = append(texts, fmt.Sprintf("%s is %d:%d, on the machine %d:%d", n.Path, n.Major, n.Minor, w.Major,
				w.Minor))
		}
	}
	for i, n := range has {
		if find(want, n.Path) == nil && find(has[:i], n.Path) == nil {
			texts = append(texts, n.Path+" is not the machine's")
		}
	}
	return texts
}

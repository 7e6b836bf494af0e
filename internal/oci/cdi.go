package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/oci/rawjson"
)

// cdiSpec is the part of a CDI spec (container-device-interface SPEC.md) that
// the wrapper uses. The CDI library itself is not used here: it costs 0.3 ms
// at each start, and its way of injecting fails in user namespaces.
type cdiSpec struct {
	file    string
	kind    string
	devices []cdiDevice
	edits   rawjson.Value // containerEdits of the spec
}

// cdiDevice keeps its edits as they are until somebody asks for the device.
type cdiDevice struct {
	name  string
	pci   string // "" where the spec does not say
	edits rawjson.Value
}

// cdiEdits are container edits, as specs-go v1.1.1 has them.
type cdiEdits struct {
	nodes  []cdiNode
	env    []string // NAME=value
	mounts []cdiMount
	hooks  []cdiHook
	gids   []uint32 // of the host
}

// cdiNode says which node of the host appears where. Numbers of 0 are not
// given. Mode, owner and permissions are not read: the policy sets them.
type cdiNode struct {
	path, hostPath string
	major, minor   uint64

	spec string // the file, for messages
}

type cdiMount struct {
	hostPath, containerPath, kind string
	options                       []string
}

// cdiHook is passed on as it was written, less the member hookName.
type cdiHook struct {
	name string // of the list in the OCI spec's hooks
	json []byte
}

func decodeCDI(mem *memory, file string, data []byte) (cdiSpec, error) {
	s := cdiSpec{file: file}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return s, fmt.Errorf("cannot decode CDI spec %s: %w", file, err)
	}
	version, err := s.decode(mem, doc.Root())
	if err != nil {
		return s, fmt.Errorf("cannot decode CDI spec %s: %w", file, err)
	}
	if !strings.HasPrefix(version, "0.") && !strings.HasPrefix(version, "1.") {
		return s, fmt.Errorf("cannot use CDI spec %s: its cdiVersion %q is not 0.x or 1.x", file, version)
	}
	if !strings.Contains(s.kind, "/") {
		return s, fmt.Errorf("cannot use CDI spec %s: its kind %q is not vendor/class", file, s.kind)
	}
	return s, nil
}

func (s *cdiSpec) decode(mem *memory, root rawjson.Value) (version string, err error) {
	if version, err = root.StringOf("cdiVersion"); err != nil {
		return "", err
	}
	if s.kind, err = root.StringOf("kind"); err != nil {
		return "", err
	}
	if s.edits, err = root.Of("containerEdits", rawjson.Object); err != nil {
		return "", err
	}
	devices, err := root.Of("devices", rawjson.Array)
	if err != nil {
		return "", err
	}
	s.devices = room(&mem.devices, devices.Len())
	for v := range devices.Elements() {
		var d cdiDevice
		if d.name, err = v.StringOf("name"); err != nil {
			return "", fmt.Errorf("devices: %w", err)
		}
		annotations, err := v.Of("annotations", rawjson.Object)
		if err != nil {
			return "", fmt.Errorf("device %s: %w", d.name, err)
		}
		if d.pci, err = annotations.StringOf(agreed.PCIAnnotation); err != nil {
			return "", fmt.Errorf("device %s: %w", d.name, err)
		}
		if d.edits, err = v.Of("containerEdits", rawjson.Object); err != nil {
			return "", fmt.Errorf("device %s: %w", d.name, err)
		}
		s.devices = append(s.devices, d)
	}
	return version, nil
}

// add takes over container edits of a spec, each node and hook once, and refuses
// what would otherwise be left out in silence.
func (e *cdiEdits) add(file string, v rawjson.Value) error {
	for _, part := range [...]struct {
		key  string
		kind rawjson.Kind
	}{
		{"deviceNodes", rawjson.Array}, {"mounts", rawjson.Array}, {"hooks", rawjson.Array}, {"env", rawjson.Array},
		{"additionalGids", rawjson.Array}, {"netDevices", rawjson.Array}, {"intelRdt", rawjson.Object},
	} {
		member, err := v.Of(part.key, part.kind)
		if err == nil && part.key == "intelRdt" && !member.None() {
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

var errUnsupported = errors.New("this wrapper can't apply that; only deviceNodes, mounts, env, hooks and additionalGids")

func (e *cdiEdits) addPart(file, key string, v rawjson.Value) error {
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

func (e *cdiEdits) addNode(file string, v rawjson.Value) (err error) {
	n := cdiNode{spec: file}
	if n.path, err = v.StringOf("path"); err != nil {
		return err
	}
	if n.hostPath, err = v.StringOf("hostPath"); err != nil {
		return err
	}
	if n.hostPath == "" {
		n.hostPath = n.path
	}
	for _, p := range []string{n.path, n.hostPath} {
		if !isCleanAbs(p) {
			return fmt.Errorf("path %q is not absolute and clean", p)
		}
	}
	kind, err := v.StringOf("type")
	if err != nil {
		return err
	}
	if kind != "" && kind != "c" && kind != "u" {
		return fmt.Errorf("%s has type %q, only c can be applied", n.path, kind)
	}
	const limit = 1<<32 - 1
	if n.major, err = v.NumberOf("major", limit); err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	if n.minor, err = v.NumberOf("minor", limit); err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	for _, known := range e.nodes {
		if known.path == n.path {
			return known.same(n)
		}
	}
	e.nodes = append(e.nodes, n)
	return nil
}

// same fails where a node of the same path is another one.
func (n cdiNode) same(o cdiNode) error {
	if n.hostPath != o.hostPath || n.major != o.major || n.minor != o.minor {
		return fmt.Errorf("it describes %s in two ways", o.path)
	}
	return nil
}

func isCleanAbs(p string) bool { return filepath.IsAbs(p) && filepath.Clean(p) == p }

package oci

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// facts are what the device policy has to know of a container's config.json.
type facts struct {
	task    bool // a Concourse task step, see isTask
	userNS  bool // it gets a user namespace of its own
	gidMaps []idMap
}

// idMap is one row of linux.gidMappings. 64 bits, so that sums can't overflow.
type idMap struct {
	ContainerID uint64 `json:"containerID"`
	HostID      uint64 `json:"hostID"`
	Size        uint64 `json:"size"`
}

// document is a config.json, with its largest part opened once.
type document struct{ top, linux object }

func decodeDocument(data []byte) (document, error) {
	top, err := decodeObject(data)
	if err != nil {
		return document{}, err
	}
	linux, err := top.child("linux")
	return document{top, linux}, err
}

func (d document) encode() ([]byte, error) {
	if err := d.top.set("linux", d.linux); err != nil {
		return nil, err
	}
	return d.top.encode()
}

func readFacts(d document) (facts, error) {
	var f facts
	var mounts []struct {
		Destination string `json:"destination"`
	}
	if err := d.top.read("mounts", &mounts); err != nil {
		return f, err
	}
	for _, m := range mounts {
		f.task = f.task || isTask(filepath.Clean(m.Destination))
	}
	var namespaces []struct {
		Type string `json:"type"`
	}
	if err := d.linux.read("namespaces", &namespaces); err != nil {
		return f, err
	}
	for _, n := range namespaces {
		f.userNS = f.userNS || n.Type == "user"
	}
	return f, d.linux.read("gidMappings", &f.gidMaps)
}

// isTask tells whether a mount's destination is that of a Concourse task's
// work folder: at or under /tmp/build/<8 hex digits>. Gets have /tmp/build/get,
// puts /tmp/build/put, checks nothing there; nothing else in config.json tells
// a task from them (Concourse, atc/exec and worker/runtime).
func isTask(destination string) bool {
	rest, ok := strings.CutPrefix(destination, "/tmp/build/")
	if !ok {
		return false
	}
	dir, _, _ := strings.Cut(rest, "/")
	return len(dir) == 8 && strings.Trim(dir, "0123456789abcdef") == ""
}

// containerGID returns the number that a group of the host has inside.
func (f facts) containerGID(gid uint32) (uint32, bool) {
	if !f.userNS {
		return gid, true
	}
	for _, m := range f.gidMaps {
		if g := uint64(gid); g >= m.HostID && g-m.HostID < m.Size {
			return uint32(m.ContainerID + g - m.HostID), true
		}
	}
	return 0, false
}

// The next three are shaped as the OCI runtime spec has them (config-linux.md).
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type device struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Major    uint32 `json:"major"`
	Minor    uint32 `json:"minor"`
	FileMode uint32 `json:"fileMode"`
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
}

type rule struct {
	Allow  bool   `json:"allow"`
	Type   string `json:"type"`
	Major  uint32 `json:"major"`
	Minor  uint32 `json:"minor"`
	Access string `json:"access"`
}

// edits are all that the policy wants changed in config.json.
type edits struct {
	paths   []string // inside the container; older entries for them are dropped
	mounts  []mount
	devices []device
	rules   []rule
	groups  []uint32 // container-side
}

// apply changes the document. Doing it twice gives the same as doing it once.
func (e edits) apply(d document) error {
	ours := func(raw json.RawMessage) bool {
		var entry struct {
			Destination string `json:"destination"` // of a mount
			Path        string `json:"path"`        // of a device
		}
		return json.Unmarshal(raw, &entry) == nil &&
			(slices.Contains(e.paths, filepath.Clean(entry.Destination)) || slices.Contains(e.paths, filepath.Clean(entry.Path)))
	}
	if err := appendTo(d.top, "mounts", e.mounts, ours); err != nil {
		return err
	}
	if err := appendTo(d.linux, "devices", e.devices, ours); err != nil {
		return err
	}
	resources, err := d.linux.child("resources")
	if err != nil {
		return err
	}
	// Last, since runc applies rules in order: a deny-all after ours would win.
	if err := appendTo(resources, "devices", e.rules, e.hasRule); err != nil {
		return err
	}
	if err := d.linux.set("resources", resources); err != nil {
		return err
	}
	if len(e.groups) == 0 {
		return nil
	}
	process, err := d.top.child("process")
	if err != nil {
		return err
	}
	if err := addGroups(process, e.groups); err != nil {
		return err
	}
	return d.top.set("process", process)
}

func (e edits) hasRule(raw json.RawMessage) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return false
	}
	return slices.ContainsFunc(e.rules, func(r rule) bool {
		own, err := encode(r)
		return err == nil && bytes.Equal(own, compact.Bytes())
	})
}

// addGroups adds user.additionalGids to an OCI process.
func addGroups(process object, groups []uint32) error {
	user, err := process.child("user")
	if err != nil {
		return err
	}
	same := func(raw json.RawMessage) bool {
		var g uint32
		return json.Unmarshal(raw, &g) == nil && slices.Contains(groups, g)
	}
	if err := appendTo(user, "additionalGids", groups, same); err != nil {
		return err
	}
	return process.set("user", user)
}

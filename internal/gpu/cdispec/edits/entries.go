package edits

import (
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// Mount describes an entry of mounts (config.md).
type Mount struct {
	Destination string
	Type        string // "" for none
	Source      string
	Options     []string
}

func (e *Edits) applyMounts(root *rawjson.Node) error {
	return root.Append("mounts", encode(e.Mounts, Mount.appendTo), e.taken("destination"))
}

func (m Mount) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"destination":`...), m.Destination)
	if m.Type != "" {
		out = rawjson.AppendString(append(out, `,"type":`...), m.Type)
	}
	out = rawjson.AppendString(append(out, `,"source":`...), m.Source)
	if len(m.Options) > 0 {
		out = rawjson.AppendStrings(append(out, `,"options":`...), m.Options)
	}
	return append(out, '}')
}

// Device describes an entry of linux.devices (config-linux.md): the runtime creates a node.
type Device struct {
	Path         string
	Type         string
	Major, Minor uint32
	FileMode     uint32
	UID, GID     uint32
}

func (e *Edits) applyDevices(root *rawjson.Node) error {
	linux, err := root.At("linux")
	if err != nil {
		return err
	}
	return linux.Append("devices", encode(e.Devices, Device.appendTo), e.taken("path"))
}

func (d Device) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"path":`...), d.Path)
	out = rawjson.AppendString(append(out, `,"type":`...), d.Type)
	out = appendNumber(append(out, `,"major":`...), d.Major)
	out = appendNumber(append(out, `,"minor":`...), d.Minor)
	out = appendNumber(append(out, `,"fileMode":`...), d.FileMode)
	out = appendNumber(append(out, `,"uid":`...), d.UID)
	out = appendNumber(append(out, `,"gid":`...), d.GID)
	return append(out, '}')
}

// Hook describes an entry of hooks (config.md).
type Hook struct {
	Name string // name of its list in hooks
	JSON []byte
}

// HookNames returns the names of the lists in hooks.
func HookNames() []string {
	return []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
}

func (e *Edits) applyHooks(root *rawjson.Node) error {
	if len(e.Hooks) == 0 {
		return nil
	}
	hooks, err := root.At("hooks")
	if err != nil {
		return err
	}
	for _, name := range HookNames() {
		var own [][]byte
		for _, h := range e.Hooks {
			if h.Name == name {
				own = append(own, h.JSON)
			}
		}
		if err := hooks.Append(name, own, nil); err != nil {
			return err
		}
	}
	return nil
}

// Rule describes an entry of linux.resources.devices (config-linux.md): a permission of the
// device cgroup.
type Rule struct {
	Allow        bool
	Type         string
	Major, Minor uint32
	Access       string
}

// applyRules moves all rules to the end, even present ones: runc applies them in order, and
// a later deny-all would override them.
func (e *Edits) applyRules(root *rawjson.Node) error {
	resources, err := root.At("linux", "resources")
	if err != nil {
		return err
	}
	return resources.Append("devices", encode(e.Rules, Rule.appendTo), nil)
}

func (r Rule) appendTo(out []byte) []byte {
	out = strconv.AppendBool(append(out, `{"allow":`...), r.Allow)
	out = rawjson.AppendString(append(out, `,"type":`...), r.Type)
	out = appendNumber(append(out, `,"major":`...), r.Major)
	out = appendNumber(append(out, `,"minor":`...), r.Minor)
	out = rawjson.AppendString(append(out, `,"access":`...), r.Access)
	return append(out, '}')
}

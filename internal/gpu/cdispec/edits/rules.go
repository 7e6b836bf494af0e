package edits

import (
	"strconv"

	"concourse-ci-machine/internal/base/rawjson"
)

// Rule is one of linux.resources.devices (config-linux.md): what the device
// cgroup allows.
type Rule struct {
	Allow        bool
	Type         string
	Major, Minor uint32
	Access       string
}

// applyRules puts rules last, also those that are there: runc applies them in
// order, and a deny-all after ours would win.
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

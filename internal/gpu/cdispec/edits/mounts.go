package edits

import "concourse-ci-machine/internal/base/rawjson"

// Mount is one of mounts (config.md).
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

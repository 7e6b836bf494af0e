package edits

import "concourse-ci-machine/internal/base/rawjson"

// Device is one of linux.devices (config-linux.md): the runtime makes a node.
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

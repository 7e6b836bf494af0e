package tasknotice

import (
	"encoding/json"
	"errors"
	"io/fs"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
)

// File is the Memory. Below /run: no container outlives a reboot.
const File = "/run/concourse-charm/gpu-notes.json"

// Read reads the memory. One that is not there, or damaged, is empty: at worst a build is
// told twice.
func Read(r host.Root) (m Memory, err error) {
	data, err := r.ReadFile(File)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrNotFile) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	return decode(data), nil
}

func decode(data []byte) (m Memory) {
	if err := json.Unmarshal(data, &m); err != nil {
		return Memory{}
	}
	for _, e := range m.Ending {
		if !wellknown.IsHandle(e.Container) || e.Init.PID < 2 {
			return Memory{}
		}
	}
	return m
}

// write replaces the memory in one step.
func write(r host.Root, m Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return r.WriteFile(File, append(data, '\n'), 0o600)
}

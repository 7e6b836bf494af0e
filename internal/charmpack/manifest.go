package charmpack

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// machines are the architectures Concourse publishes a Linux release for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// charmcraft is the part of charmcraft.yaml that decides the manifest.
type charmcraft struct {
	Base      string         `yaml:"base"`
	Platforms map[string]any `yaml:"platforms"`
}

// manifest renders manifest.yaml for one architecture. The base comes from
// charmcraft.yaml, so that both ways to pack agree.
func (s Source) manifest() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(s.Root, "charmcraft.yaml"))
	if err != nil {
		return nil, fmt.Errorf("cannot make the manifest: %w", err)
	}
	var c charmcraft
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("cannot parse charmcraft.yaml: %w", err)
	}
	name, channel, ok := strings.Cut(c.Base, "@")
	if !ok || name == "" || channel == "" {
		return nil, fmt.Errorf("cannot make the manifest: base %q in charmcraft.yaml is not of the form ubuntu@24.04", c.Base)
	}
	if _, ok := c.Platforms[s.Arch]; !ok {
		return nil, fmt.Errorf("cannot make the manifest: architecture %q is not among the platforms of charmcraft.yaml", s.Arch)
	}
	return fmt.Appendf(nil, "bases:\n- name: %s\n  channel: %q\n  architectures: [%s]\n", name, channel, s.Arch), nil
}

// program reads a built program and refuses one that would not start on the
// unit: another architecture, or one that needs shared libraries.
func (s Source) program(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(s.Bin, name))
	if err != nil {
		return nil, fmt.Errorf("%w (`make build` makes it)", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("it is no Linux program: %w", err)
	}
	if f.Machine != machines[s.Arch] {
		return nil, fmt.Errorf("it is built for %s, not for %s", f.Machine, s.Arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("it is linked dynamically; build it with CGO_ENABLED=0")
		}
	}
	return data, nil
}

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

// machines are the architectures of Concourse's Linux releases.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// charmcraft decodes the part of charmcraft.yaml that determines the manifest: platforms by
// name, each with one base and architecture. The manifest keeps their order.
type charmcraft struct {
	Platforms yaml.Node `yaml:"platforms"`
}

// manifest renders manifest.yaml for one architecture. The bases come from charmcraft.yaml,
// so that both ways to pack agree. charmcraft packs one file for each.
func (s Source) manifest() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(s.Root, "charmcraft.yaml"))
	if err != nil {
		return nil, fmt.Errorf("cannot make the manifest: %w", err)
	}
	var c charmcraft
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("cannot parse charmcraft.yaml: %w", err)
	}
	text := "bases:\n"
	for i := 0; i+1 < len(c.Platforms.Content); i += 2 {
		platform := c.Platforms.Content[i].Value
		var build struct {
			For []string `yaml:"build-for"`
		}
		if err := c.Platforms.Content[i+1].Decode(&build); err != nil {
			return nil, fmt.Errorf("cannot parse the platform %q of charmcraft.yaml: %w", platform, err)
		}
		if len(build.For) == 0 {
			build.For = []string{platform} // charmcraft's short form
		}
		for _, one := range build.For {
			base, arch, _ := strings.Cut(one, ":")
			name, channel, _ := strings.Cut(base, "@")
			if name == "" || channel == "" || arch == "" {
				return nil, fmt.Errorf("cannot make the manifest: %q in charmcraft.yaml is not of the form "+
					"ubuntu@24.04:amd64", one)
			}
			if arch == s.Arch {
				text += fmt.Sprintf("- name: %s\n  channel: %q\n  architectures: [%s]\n", name, channel, arch)
			}
		}
	}
	if text == "bases:\n" {
		return nil, fmt.Errorf("cannot make the manifest: architecture %q is not among the platforms of "+
			"charmcraft.yaml", s.Arch)
	}
	return []byte(text), nil
}

// program reads a built program. It refuses a program for another architecture, or one that
// needs shared libraries, because it would not start on the unit.
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

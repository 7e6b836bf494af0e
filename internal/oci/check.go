package oci

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/clockpin"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

func (c *Config) setDefaults() {
	c.Containers = cmp.Or(c.Containers, Tasks)
	c.State = cmp.Or(c.State, defaultState)
	c.Nodes = cmp.Or(c.Nodes, DefaultNodes)
	if f := c.Folders; f != nil {
		f.Containers = cmp.Or(f.Containers, Tasks)
		f.Readonly = cmp.Or(f.Readonly, Recursive)
	}
	if l := c.Leases; l != nil {
		l.Dir = cmp.Or(l.Dir, lease.DefaultDir)
		if l.Bench != nil {
			l.Bench.Dir = cmp.Or(l.Bench.Dir, clockpin.DefaultDir)
		}
	}
}

// check returns the first problem of a config with its defaults filled in. Runtime may be
// empty, because the environment may name it.
func (c *Config) check() error {
	if err := checkContainers(c.Containers, Tasks, Asked, All); err != nil {
		return err
	}
	paths := [][2]string{{"state", c.State}, {"nodes", c.Nodes}}
	if c.Runtime != "" {
		paths = append(paths, [2]string{"runtime", c.Runtime})
	}
	for _, s := range c.Specs {
		paths = append(paths, [2]string{"specs", s})
	}
	if c.Tools != "" {
		paths = append(paths, [2]string{"tools", c.Tools})
	}
	if c.CACertificates != "" {
		paths = append(paths, [2]string{"ca_certificates", c.CACertificates})
	}
	if c.Folders != nil {
		paths = append(paths, [2]string{"folders: root", c.Folders.Root})
	}
	for _, p := range paths {
		if !filepath.IsAbs(p[1]) {
			return fmt.Errorf("%s: %q is not an absolute path", p[0], p[1])
		}
	}
	for _, d := range c.Devices {
		kind, name, ok := strings.Cut(d, "=")
		if !ok || name == "" || !strings.Contains(kind, "/") {
			return fmt.Errorf("devices: %q is not a CDI name such as amd.com/gpu=0", d)
		}
	}
	if len(c.Devices) > 0 && len(c.Specs) == 0 {
		return errors.New("devices are given but no specs to find them in")
	}
	for _, name := range c.Visible {
		if !isEnvName(name) {
			return fmt.Errorf("visible: %q is not a name of an environment variable", name)
		}
	}
	if err := c.Leases.check(c.Devices); err != nil {
		return err
	}
	if err := c.Quarantine.check(); err != nil {
		return err
	}
	return c.Folders.check()
}

func checkContainers(c Containers, known ...Containers) error {
	var texts []string
	for _, k := range known {
		if c == k {
			return nil
		}
		texts = append(texts, string(k))
	}
	return fmt.Errorf("containers: %q is not one of %s", c, strings.Join(texts, ", "))
}

func (f *Folders) check() error {
	if f == nil {
		return nil
	}
	if err := checkContainers(f.Containers, Tasks, All); err != nil {
		return fmt.Errorf("folders: %w", err)
	}
	if f.Readonly != Recursive && f.Readonly != TopOnly {
		return fmt.Errorf("folders: readonly: %q is not one of %s, %s", f.Readonly, Recursive, TopOnly)
	}
	for _, name := range f.Names {
		if why := FolderNameProblem(name); why != "" {
			return fmt.Errorf("folders: names: %q %s", name, why)
		}
	}
	return nil
}

func isEnvName(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

func (l *Leases) check(devices []string) error {
	if l == nil {
		return nil
	}
	if !filepath.IsAbs(l.Dir) {
		return fmt.Errorf("leases: dir: %q is not an absolute path", l.Dir)
	}
	for _, d := range devices {
		_, name, _ := strings.Cut(d, "=")
		if name == cdispec.All {
			return fmt.Errorf("leases: %q stands for several GPUs, and a lease is of one; name each in devices", d)
		}
	}
	if n := len(l.Links); n > 0 && n != len(devices) {
		return fmt.Errorf("leases: links: there are %d rows for %d devices", n, len(devices))
	}
	for i, row := range l.Links {
		if len(row) != len(devices) {
			return fmt.Errorf("leases: links: row %d has %d entries for %d devices", i, len(row), len(devices))
		}
	}
	if err := l.Bench.check(); err != nil {
		return fmt.Errorf("leases: bench: %w", err)
	}
	return l.checkNames(devices)
}

// checkNames requires one name for each device, and one GPU for each name.
func (l *Leases) checkNames(devices []string) error {
	if len(l.GPUs) != len(devices) {
		return fmt.Errorf("leases: gpus: there are %d for %d devices", len(l.GPUs), len(devices))
	}
	return checkGPUNames("leases", l.GPUs)
}

// checkGPUNames requires that each name and each node belongs to one GPU.
func checkGPUNames(section string, gpus []LeasedGPU) error {
	var names, nodes []string
	for _, g := range gpus {
		if g.Name == "" || len(g.Nodes) == 0 || slices.Contains(names, g.Name) {
			return fmt.Errorf("%s: gpus: %q is no name with nodes, or there twice", section, g.Name)
		}
		names = append(names, g.Name)
		for _, n := range g.Nodes {
			if !filepath.IsAbs(n) || slices.Contains(nodes, n) {
				return fmt.Errorf("%s: gpus: %q is no absolute path, or there twice", section, n)
			}
			nodes = append(nodes, n)
		}
	}
	return nil
}

func (b *Bench) check() error {
	if b == nil {
		return nil
	}
	if !filepath.IsAbs(b.Dir) {
		return fmt.Errorf("dir: %q is not an absolute path", b.Dir)
	}
	for _, g := range b.GPUs {
		if !clockpin.IsWholeGPU(g.Name) {
			return fmt.Errorf("gpus: %q is not the PCI address of a whole GPU", g.Name)
		}
		if !filepath.IsAbs(g.Dir) {
			return fmt.Errorf("gpus: sysfs: %q is not an absolute path", g.Dir)
		}
		if err := g.Level.Check(); err != nil {
			return fmt.Errorf("gpus: level: %w", err)
		}
	}
	return nil
}

func (h *Quarantine) check() error {
	if h == nil {
		return nil
	}
	if !filepath.IsAbs(h.File) {
		return fmt.Errorf("withheld: file: %q is not an absolute path", h.File)
	}
	return checkGPUNames("withheld", h.GPUs)
}

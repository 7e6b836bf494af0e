package oci

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
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
		l.Clocks = cmp.Or(l.Clocks, fixedclocks.DefaultDir)
	}
}

// check returns the first problem of a config with its defaults filled in. Runtime may be
// empty, because the environment may name it.
func (c *Config) check() error {
	if err := checkContainers(c.Containers, Tasks, Requested, All); err != nil {
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
	if c.Quarantine != "" {
		paths = append(paths, [2]string{"quarantine", c.Quarantine})
	}
	if c.Folders != nil {
		paths = append(paths, [2]string{"folders: root", c.Folders.Root})
	}
	for _, p := range paths {
		if !filepath.IsAbs(p[1]) {
			return fmt.Errorf("%s: %q is not an absolute path", p[0], p[1])
		}
	}
	if err := c.checkGPUs(); err != nil {
		return fmt.Errorf("gpus: %w", err)
	}
	for _, name := range c.Visible {
		if !isEnvName(name) {
			return fmt.Errorf("visible: %q is not a name of an environment variable", name)
		}
	}
	if err := c.Leases.check(len(c.GPUs)); err != nil {
		return fmt.Errorf("leases: %w", err)
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

// checkGPUs requires that each name and each node belongs to one GPU. An entry for all GPUs
// of a spec must be the only one, and they are shared.
func (c *Config) checkGPUs() error {
	if len(c.GPUs) > 0 && len(c.Specs) == 0 {
		return errors.New("there are no specs to find them in")
	}
	var names, nodes []string
	for _, g := range c.GPUs {
		kind, name, ok := strings.Cut(g.CDI, "=")
		if !ok || name == "" || !strings.Contains(kind, "/") {
			return fmt.Errorf("%q is not a CDI name such as amd.com/gpu=0", g.CDI)
		}
		if name == cdispec.All && (len(c.GPUs) > 1 || len(g.Nodes) > 0 || c.Leases != nil || c.Quarantine != "") {
			return fmt.Errorf("%q means several GPUs: name each of them", g.CDI)
		}
		if g.Name == "" || slices.Contains(names, g.Name) {
			return fmt.Errorf("%q is not a name, or is listed twice", g.Name)
		}
		if len(g.Nodes) == 0 && c.Leases != nil {
			return fmt.Errorf("%q has no nodes, which a leased GPU needs", g.Name)
		}
		names = append(names, g.Name)
		for _, n := range g.Nodes {
			if !filepath.IsAbs(n) || slices.Contains(nodes, n) {
				return fmt.Errorf("%q is not an absolute path, or is listed twice", n)
			}
			nodes = append(nodes, n)
		}
		if err := g.checkClocks(); err != nil {
			return fmt.Errorf("clocks: %w", err)
		}
	}
	return nil
}

func (g GPU) checkClocks() error {
	switch {
	case g.Clocks == nil:
		return nil
	case !fixedclocks.IsWholeGPU(g.Name):
		return fmt.Errorf("%q is not the PCI address of a whole GPU", g.Name)
	case !filepath.IsAbs(g.Clocks.Sysfs):
		return fmt.Errorf("sysfs: %q is not an absolute path", g.Clocks.Sysfs)
	}
	if err := g.Clocks.Level.Check(); err != nil {
		return fmt.Errorf("level: %w", err)
	}
	return nil
}

func (l *Leases) check(gpus int) error {
	if l == nil {
		return nil
	}
	if !filepath.IsAbs(l.Dir) {
		return fmt.Errorf("dir: %q is not an absolute path", l.Dir)
	}
	if !filepath.IsAbs(l.Clocks) {
		return fmt.Errorf("clocks: %q is not an absolute path", l.Clocks)
	}
	if n := len(l.Links); n > 0 && n != gpus {
		return fmt.Errorf("links: there are %d rows for %d GPUs", n, gpus)
	}
	for i, row := range l.Links {
		if len(row) != gpus {
			return fmt.Errorf("links: row %d has %d entries for %d GPUs", i, len(row), gpus)
		}
	}
	return nil
}

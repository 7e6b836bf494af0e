package amd

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the facts as people read them, what is not there left out.
func (f DriverFacts) Print(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name+":", fmt.Sprintf(format, args...))
	}
	what := string(f.Where)
	for _, detail := range []string{f.Hypervisor, f.Container} {
		if detail != "" && detail != what {
			what += " (" + detail + ")"
		}
	}
	line("machine", "%s, %s %s on %s, kernel %s", what, f.Distro, f.Series, f.Arch, f.Kernel)
	line("resources", "%d CPUs, %.1f GB memory, %.1f GB free on /", f.CPUs, float64(f.Memory)/gigabyte, float64(f.Disk)/gigabyte)
	for _, g := range f.GPUs {
		family, driver := g.Family, g.Driver
		if family == Unknown {
			family = "of a family that is not known"
		}
		if driver == "" {
			driver = "no driver"
		}
		line("GPU", "%s 1002:%04x %s, %s", g.PCI, g.Device, family, driver)
	}
	if f.Module.Loaded {
		line("running", "amdgpu %s", version(f.Module.Version, f.Module.SrcVersion))
	}
	for _, m := range f.Module.Files {
		note := ""
		if m.Path == f.Module.Selected {
			note = ", which modprobe takes"
		}
		if m.SrcVersion != "" {
			note += ", " + version(m.Version, m.SrcVersion)
		}
		line("module", "%s%s", m.Path, note)
	}
	switch h := f.Headers; {
	case h.Present:
		line("headers", "%s: there", h.Package)
	case h.Candidate != "":
		line("headers", "%s: apt has %s", h.Package, h.Candidate)
	case h.Asked:
		line("headers", "%s: apt has none", h.Package)
	}
	for _, l := range f.Blacklists {
		line("blacklist", "%s:%d %s", l.File, l.Line, l.Text)
	}
	if f.SecureBoot {
		line("secure boot", "on")
	}
	for _, p := range f.Packages {
		held := ""
		if p.Held {
			held = ", on hold"
		}
		line("package", "%s %s (%s%s)", p.Name, p.Version, p.Status, held)
	}
	for _, s := range f.Sources {
		line("source", "%s:%d %s", s.File, s.Line, s.URI)
	}
	for _, p := range f.Pins {
		line("pin", "%s:%d %s: %s, priority %s", p.File, p.Line, p.Package, p.Pin, p.Priority)
	}
	if f.RebootFor != nil {
		line("reboot", "wanted by %s", strings.Join(f.RebootFor, " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Print writes a decision as people read it.
func (d Decision) Print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "driver: %s: %s\n", d.State, d.Reason); err != nil {
		return err
	}
	for i, r := range d.Remedies {
		if _, err := fmt.Fprintf(w, "  %d. %s\n", i+1, r); err != nil {
			return err
		}
	}
	return nil
}

// Text is a decision in a status: the reason, and the first thing to do.
func (d Decision) Text() string {
	if len(d.Remedies) == 0 {
		return fmt.Sprintf("driver %s: %s", d.State, d.Reason)
	}
	return fmt.Sprintf("driver %s: %s — %s", d.State, d.Reason, d.Remedies[0])
}

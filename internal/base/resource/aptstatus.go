package resource

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// PackageState is the state of a package in dpkg's database. The zero value is an unknown
// package.
type PackageState struct {
	Status   string // installed, half-configured, unpacked, half-installed, triggers-pending, config-files, ...
	Version  string // "" if the package is not installed
	Reinst   bool   // dpkg requires a reinstallation first
	HeldBack bool   // an administrator put it on hold
}

// Installed reports whether the package is installed and works. Pending triggers are
// another package's work and do not affect it.
func (s PackageState) Installed() bool {
	switch s.Status {
	case "installed", "triggers-pending", "triggers-awaited":
		return !s.Reinst
	}
	return false
}

// Broken reports whether an installation was started and not finished.
func (s PackageState) Broken() bool {
	switch s.Status {
	case "half-installed", "unpacked", "half-configured":
		return true
	}
	return s.Reinst
}

// DpkgStatus is dpkg's database: stanzas separated by empty lines.
const DpkgStatus = "/var/lib/dpkg/status"

// ReadPackage reads the state of one package from dpkg's database. It runs no command,
// because every hook calls it. A machine without the database has no packages.
func ReadPackage(r host.Root, name string) (PackageState, error) {
	data, err := r.ReadFile(DpkgStatus)
	if errors.Is(err, fs.ErrNotExist) {
		return PackageState{}, nil
	}
	if err != nil {
		return PackageState{}, fmt.Errorf("cannot read the state of package %s: %w", name, err)
	}
	return findPackage(data, name), nil
}

// findPackage searches all architectures of a package and prefers an installed one.
func findPackage(data []byte, name string) PackageState {
	var best PackageState
	head := []byte("Package: " + name + "\n")
	for at := 0; ; {
		i := bytes.Index(data[at:], head)
		if i < 0 {
			return best
		}
		start := at + i
		at = start + len(head)
		if start > 0 && data[start-1] != '\n' {
			continue
		}
		stanza := data[start:]
		if end := bytes.Index(stanza, []byte("\n\n")); end >= 0 {
			stanza = stanza[:end]
		}
		if s := parseStanza(stanza); best.Status == "" || s.Installed() || s.Broken() && !best.Installed() {
			best = s
		}
	}
}

// parseStanza reads "Status: <want> <flag> <status>" and the version.
func parseStanza(stanza []byte) PackageState {
	var s PackageState
	for line := range strings.Lines(string(stanza)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch key {
		case "Status":
			if f := strings.Fields(value); len(f) == 3 {
				s.HeldBack, s.Reinst, s.Status = f[0] == "hold", f[1] == "reinstreq", f[2]
			}
		case "Version":
			s.Version = strings.TrimSpace(value)
		}
	}
	if s.Status == "not-installed" || s.Status == "config-files" {
		s.Version = ""
	}
	return s
}

package amd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// amdPackage reports whether a package belongs to AMD's driver, tools or user space. Ubuntu
// has some packages with the same names; their versions differ.
func amdPackage(name string) bool {
	for _, prefix := range []string{"amdgpu", "rocm", "amd-smi", "amd-container-toolkit", "hip-", "hsa-", "comgr"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// packages reads AMD's packages from dpkg's database, including unfinished packages and
// removed packages with remaining configuration.
func packages(r host.Root) (found []Installed, err error) {
	data, err := r.ReadFile(resource.DpkgStatus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot observe AMD's packages: %w", err)
	}
	for stanza := range strings.SplitSeq(string(data), "\n\n") {
		stanza = strings.TrimLeft(stanza, "\n")
		name, ok := strings.CutPrefix(stanza, "Package: ")
		name, _, _ = strings.Cut(name, "\n")
		if !ok || !amdPackage(name) {
			continue
		}
		p := Installed{Name: name}
		for line := range strings.Lines(stanza) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch f := strings.Fields(value); {
			case key == "Status" && len(f) == 3:
				p.Held, p.Status = f[0] == "hold", f[2]
			case key == "Version":
				p.Version = value
			}
		}
		if p.Status != "not-installed" {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Installed) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// amdRepo reports whether a URI is one of AMD's repositories, or a mirror with the same
// path.
func amdRepo(uri string) bool {
	for _, part := range []string{"repo.radeon.com", "/rocm/apt/", "/amd-container-toolkit/apt"} {
		if strings.Contains(uri, part) {
			return true
		}
	}
	return driverRelease(uri) != ""
}

// sources returns AMD's repositories in both formats of apt (sources.list(5)). It skips
// disabled entries.
func sources(r host.Root) (found []AptEntry, err error) {
	files, err := confFiles(r, "/etc/apt/sources.list", "/etc/apt/sources.list.d", ".list", ".sources")
	for _, f := range files {
		read := listEntries
		if strings.HasSuffix(f.path, ".sources") {
			read = deb822Entries
		}
		found = append(found, read(f.path, f.text)...)
	}
	return found, err
}

func listEntries(file, text string) (found []AptEntry) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		f := strings.Fields(strings.SplitN(line, "#", 2)[0])
		if len(f) < 3 || f[0] != "deb" {
			continue
		}
		for _, word := range f[1:] {
			if strings.Contains(word, "://") || strings.HasPrefix(word, "file:") {
				if amdRepo(word) {
					found = append(found, AptEntry{file, number, word})
				}
				break
			}
		}
	}
	return found
}

func deb822Entries(file, text string) (found []AptEntry) {
	var of []AptEntry
	off, number, key := false, 0, ""
	end := func() {
		if !off {
			found = append(found, of...)
		}
		of, off, key = nil, false, ""
	}
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			end()
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		value := strings.TrimSpace(line)
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") { // otherwise the previous field continues
			key, value, _ = strings.Cut(value, ":")
			key = strings.ToLower(key)
		}
		value = strings.TrimSpace(value)
		switch key {
		case "enabled":
			off = strings.EqualFold(value, "no") || strings.EqualFold(value, "false")
		case "uris":
			for uri := range strings.FieldsSeq(value) {
				if amdRepo(uri) {
					of = append(of, AptEntry{file, number, uri})
				}
			}
		}
	}
	end()
	return found
}

// pins returns apt's preferences (apt_preferences(5)) that name AMD's repository or one of
// its packages.
func pins(r host.Root) (found []Pin, err error) {
	files, err := confFiles(r, "/etc/apt/preferences", "/etc/apt/preferences.d", "", ".pref")
	for _, f := range files {
		var p Pin
		number := 0
		end := func() {
			if p.Package != "" &&
				(strings.Contains(p.Package+p.Pin, "radeon") ||
					slices.ContainsFunc(strings.Fields(p.Package), amdPackage)) {
				found = append(found, p)
			}
			p = Pin{}
		}
		for line := range strings.Lines(f.text) {
			number++
			key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
			value = strings.TrimSpace(value)
			switch {
			case strings.TrimSpace(line) == "":
				end()
			case !ok:
			case key == "Package":
				p.File, p.Line, p.Package = f.path, number, value
			case key == "Pin":
				p.Pin = value
			case key == "Pin-Priority":
				p.Priority = value
			}
		}
		end()
	}
	return found, err
}

type confFile struct{ path, text string }

// confFiles returns a file and the files of a folder that apt reads, by extension.
func confFiles(r host.Root, single, dir string, extensions ...string) (files []confFile, err error) {
	paths := []string{single}
	entries, err := r.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if slices.Contains(extensions, path.Ext(e.Name())) && !e.IsDir() {
			paths = append(paths, path.Join(dir, e.Name()))
		}
	}
	for _, p := range paths {
		data, err := r.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot observe apt's settings: %w", err)
		}
		files = append(files, confFile{p, string(data)})
	}
	return files, nil
}

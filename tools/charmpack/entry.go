package charmpack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Source describes the charm to pack.
type Source struct {
	Root    string // the repository
	Bin     string // folder of the built programs
	Arch    string // GOARCH of these programs
	Version string // one line, shown as charm-version
	// Takeover leaves out the endpoints and the resource that the Python charm lacks.
	Takeover bool
}

// Entry describes one file or link of the charm.
type Entry struct {
	Name string      // slash-separated, relative to the charm's root
	Mode fs.FileMode // 0o644, 0o755 or fs.ModeSymlink|0o777
	Data []byte      // content, or the target of a link
}

// plain are files from the root of the tree, packed unchanged.
var plain = []string{
	"LICENSE", "README.md", "actions.yaml", "config.yaml", "icon.svg",
	"lxd-profile.yaml", "metadata.yaml",
}

// folders are packed with their files. The charm, and tools that inspect charms, search
// them for alert rules and dashboards.
var folders = []string{"src/grafana_dashboards", "src/loki_alert_rules", "src/prometheus_alert_rules"}

// programs maps names in the charm to names in Source.Bin.
var programs = map[string]string{
	"dispatch":               "dispatch",
	"bin/runc-amd-wrapper":   "runc-amd-wrapper",
	"bin/rocm-exporter":      "rocm-exporter",
	"bin/concourse-exporter": "concourse-exporter",
	"bin/gpu-baseline":       "gpu-baseline",
	"bin/gpu-device-plugin":  "gpu-device-plugin",
	"bin/gpu-dra-driver":     "gpu-dra-driver",
	"bin/pebble":             "pebble",
}

// Entries returns all entries of the charm, sorted by name. The error names a missing file,
// or every problem that Juju would report.
func (s Source) Entries() ([]Entry, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	manifest, err := s.manifest()
	if err != nil {
		return nil, err
	}
	all := []Entry{
		{"manifest.yaml", 0o644, manifest},
		{"revision", 0o644, []byte("0\n")},
		{"version", 0o644, []byte(strings.TrimSpace(s.Version) + "\n")},
	}
	for _, name := range plain {
		data, err := os.ReadFile(filepath.Join(s.Root, name))
		if name == "metadata.yaml" {
			data, err = s.metadataFile()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", name, err)
		}
		all = append(all, Entry{name, 0o644, data})
	}
	for _, dir := range folders {
		files, err := s.folder(dir)
		if err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", dir, err)
		}
		all = append(all, files...)
	}
	for name, built := range programs {
		data, err := s.program(built)
		if err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", name, err)
		}
		all = append(all, Entry{name, 0o755, data})
	}
	shims, err := s.shims()
	if err != nil {
		return nil, err
	}
	all = append(all, shims...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// folder returns the files of one folder, which must not be empty.
func (s Source) folder(dir string) ([]Entry, error) {
	list, err := os.ReadDir(filepath.Join(s.Root, dir))
	if err == nil && len(list) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, e := range list {
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is not a plain file", e.Name())
		}
		data, err := os.ReadFile(filepath.Join(s.Root, dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, Entry{dir + "/" + e.Name(), 0o644, data})
	}
	return out, nil
}

// shims returns the checked-in hooks/: one script and links to it.
func (s Source) shims() ([]Entry, error) {
	names, err := s.hookNames()
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, name := range names {
		path := filepath.Join(s.Root, "hooks", name)
		e := Entry{Name: "hooks/" + name, Mode: 0o755}
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Type() == fs.ModeSymlink {
			var target string
			target, err = os.Readlink(path)
			e.Mode, e.Data = fs.ModeSymlink|0o777, []byte(target)
			if err == nil && target != shimScript {
				err = fmt.Errorf("it links to %s, not to %s", target, shimScript)
			}
		} else if err == nil {
			e.Data, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot pack hooks/%s (`make hooks` makes the links): %w", name, err)
		}
		out = append(out, e)
	}
	return out, nil
}

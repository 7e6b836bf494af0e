package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// FolderNameProblem tells why a folder of this name is never given to a
// container; "" when it may be.
func FolderNameProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name[0] == '.':
		return "is hidden: its name begins with a dot"
	case strings.Contains(name, "/"):
		return "is a path, not a name"
	case !utf8.ValidString(name):
		return "has a name that is not UTF-8, which JSON can't carry"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "has a control character in its name"
	}
	return ""
}

// writable tells by the folder's name whether tasks may write to it.
func writable(name string) bool {
	return strings.HasSuffix(name, "_writable") || strings.HasSuffix(name, "_rw")
}

// folderMounts returns the mounts of the unit's folders, in the order of their
// names. Files and links are left out without a word, and so is what can't be
// given, unless the config names it: one odd folder must not stop every task.
// No folder is looked into: a dead network mount would never answer.
func (m machine) folderMounts(f Folders) ([]mount, []string, error) {
	entries, err := m.listFolders(f.Root)
	if errors.Is(err, unix.ENOENT) && len(f.Names) == 0 {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("cannot give the container the folders of %s: %w", f.Root, err)
	}
	mounts := make([]mount, 0, len(entries))
	var skipped []string
	for _, e := range entries {
		named := slices.Contains(f.Names, e.name)
		if !e.dir || len(f.Names) > 0 && !named {
			continue
		}
		path := f.Root + "/" + e.name
		why := FolderNameProblem(e.name)
		if why == "" {
			why = m.whyUnusable(path)
		}
		if why != "" && named {
			return nil, nil, fmt.Errorf("cannot give the container the folder %s: it %s", path, why)
		} else if why != "" {
			skipped = append(skipped, fmt.Sprintf("%q %s", path, why))
			continue
		}
		mounts = append(mounts, mount{Destination: path, Type: "bind", Source: path, Options: f.options(e.name)})
	}
	for _, name := range f.Names {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.name == name && e.dir }) {
			return nil, nil, fmt.Errorf("cannot give the container the folder %s/%s: there is no such directory (links are not followed); "+
				"make it, or take its name out of the unit's configuration", f.Root, name)
		}
	}
	return mounts, skipped, nil
}

func (f Folders) options(name string) []string {
	access := "ro"
	if writable(name) {
		access = "rw"
	}
	if f.Readonly == TopOnly {
		return []string{"rbind", access, "nosuid", "nodev"}
	}
	// The plain ones are for the folder itself where runc knows no others.
	options := []string{"rbind", access, "nosuid", "nodev", "rnosuid", "rnodev"}
	if access == "ro" {
		options = append(options, "rro")
	}
	return options
}

// folderEdits adds the folders, except where the container has a mount of its
// own at that path: a task's output may be there.
func (e *edits) addFolders(f facts, mounts []mount) {
	for _, m := range mounts {
		if source, taken := f.mountAt(m.Destination); taken && source != m.Source {
			continue
		}
		e.paths = append(e.paths, m.Destination)
		e.mounts = append(e.mounts, m)
	}
}

package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/deadmount"
)

// FolderNameProblem returns why a folder of this name is never given to a container, and ""
// if it may be given.
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

// writable reports whether a folder's name lets tasks write to it.
func writable(name string) bool {
	return strings.HasSuffix(name, "_writable") || strings.HasSuffix(name, "_rw")
}

// folderMounts returns the mounts of the unit's folders, in the order of their names, and
// those that are skipped. Files, links and folders that cannot be given are skipped unless
// the config names them, because one odd folder must not stop every task. Folders are not
// read, because a dead network mount would never answer.
func (m *machine) folderMounts(f Folders) (mounts []edits.Mount, skipped []string, err error) {
	names, err := m.listNames(f.Root)
	if errors.Is(err, unix.ENOENT) && len(f.Names) == 0 {
		return nil, nil, nil
	}
	cannot := func(err error) ([]edits.Mount, []string, error) {
		return nil, nil, fmt.Errorf("cannot give the container the folders of %s: %w", f.Root, err)
	}
	if err != nil {
		return cannot(err)
	}
	for _, name := range f.Names {
		if !slices.Contains(names, name) {
			return nil, nil, f.missing(name)
		}
	}
	for _, name := range names {
		named := slices.Contains(f.Names, name)
		if len(f.Names) > 0 && !named {
			continue
		}
		path := filepath.Join(f.Root, name)
		st, err := m.inspectDir(path)
		if errors.Is(err, unix.ENOENT) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if named {
				return nil, nil, f.missing(name)
			}
			continue
		}
		why := FolderNameProblem(name)
		if why == "" && err != nil {
			why = "can't be asked: " + err.Error()
		} else if why == "" {
			why = m.whyUnusable(path, st)
		}
		if why != "" && named {
			return nil, nil, fmt.Errorf("cannot give the container the folder %s: it %s", path, why)
		} else if why != "" {
			skipped = append(skipped, fmt.Sprintf("%q %s", path, why))
			continue
		}
		if len(mounts) == maxFolders {
			return cannot(fmt.Errorf("it has more than %d directories", maxFolders))
		}
		mounts = append(mounts, edits.Mount{Destination: path, Type: "bind", Source: path, Options: f.options(name)})
	}
	return mounts, skipped, nil
}

const maxFolders = 10000

func (f Folders) missing(name string) error {
	return fmt.Errorf("cannot give the container the folder %s/%s: no such directory (links are not "+
		"followed); "+
		"make it, or take its name out of the unit's configuration", f.Root, name)
}

// noSync limits statx to data that the kernel has, without a request to a server.
const noSync = unix.AT_STATX_DONT_SYNC | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT

// answerTime bounds the answer of a network file system.
const answerTime = 2 * time.Second

// inspectDir returns the kernel's data that whyUnusable needs, without a request to a
// server.
func (m *machine) inspectDir(path string) (st unix.Statx_t, err error) {
	return st, m.statx(unix.AT_FDCWD, path, noSync, unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
}

// whyUnusable returns why runc would hang at the directory, and "" if it would not.
func (m *machine) whyUnusable(path string, st unix.Statx_t) string {
	if !deadmount.MayHang(st) {
		return ""
	}
	return m.probe(path, answerTime)
}

// listNames returns the names in a directory, sorted.
func (m *machine) listNames(dir string) ([]string, error) {
	if st, err := m.inspectDir(dir); err == nil { // an error shows when it is opened
		if why := m.whyUnusable(dir, st); why != "" {
			return nil, errors.New("it " + why)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	names, err := readNames(fd)
	slices.Sort(names)
	return names, err
}

func (f Folders) options(name string) []string {
	access := "ro"
	if writable(name) {
		access = "rw"
	}
	if f.Readonly == TopOnly {
		return []string{"rbind", access, "nosuid", "nodev"}
	}
	// The options without r are for runc versions that do not support the others.
	options := []string{"rbind", access, "nosuid", "nodev", "rnosuid", "rnodev"}
	if access == "ro" {
		options = append(options, "rro")
	}
	return options
}

// addFolders adds the folders, except at paths where the container has a mount: a task's
// output may be there.
func addFolders(e *edits.Edits, f facts, mounts []edits.Mount) {
	for _, m := range mounts {
		if source, taken := f.mountAt(m.Destination); !taken || source == m.Source {
			e.Mounts = append(e.Mounts, m)
		}
	}
}

// addTools adds the folder of the unit's programs. A missing folder fails no task.
func (m *machine) addTools(e *edits.Edits, f facts, dir string) {
	if st, err := m.inspectDir(dir); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	addFolders(e, f, []edits.Mount{{Destination: dir, Type: "bind", Source: dir,
		Options: []string{"bind", "ro", "nosuid", "nodev"}}})
}

// caPath is the path in a task of the file in Config.CACertificates. It is not below /run,
// because tasks that start engines mount a file system there.
const caPath = "/opt/concourse-ci-machine/ca-certificates.crt"

// caVariables lists variables that name a file of trusted certificates: of OpenSSL and Go,
// Python's requests, curl, Node.js, git and pip.
var caVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
	"GIT_SSL_CAINFO", "PIP_CERT"}

// addCertificates adds the file and sets the variables that neither the task nor its image
// sets. A missing file fails no task.
func addCertificates(e *edits.Edits, f facts, file string) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if source, taken := f.mountAt(caPath); taken && source != file {
		return
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: caPath, Type: "bind", Source: file,
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	for _, name := range caVariables {
		e.Process.Env.Defaults = append(e.Process.Env.Defaults, name+"="+caPath)
	}
}

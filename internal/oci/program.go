package oci

import (
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// This file digests what a task runs, so that two tasks can be compared under any names.

// programDigest returns a keyed hash of what the task's own process runs: its arguments,
// its folder and its image. It returns "" for other processes, and if something cannot be
// read: no task fails for it. Environments are left out, because a build can have any.
func (w *wrapper) programDigest(s *settings, c *cmdline.Call, k marker) string {
	if c.Command != "exec" || k.lease.ownProcess || c.Process.Value == "" ||
		filepath.Base(c.PidFile) != lease.TaskPIDFile {
		return ""
	}
	data, st, err := readNoFollow(c.Process.Value)
	if err != nil || st.Uid != w.euid {
		return ""
	}
	texts, err := programTexts(data)
	if err != nil {
		return ""
	}
	digest, err := w.leases(s, nil).Digest(append(texts, k.lease.image)...)
	if err != nil {
		return ""
	}
	return digest
}

// programTexts returns the folder and the arguments of a process file.
func programTexts(data []byte) ([]string, error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	args, err := doc.Root().Strings("args")
	if err != nil {
		return nil, err
	}
	dir, err := doc.Root().StringOf("cwd")
	if err != nil {
		return nil, err
	}
	texts := append([]string{dir}, args...)
	for i := range texts {
		texts[i] = dropTaskName(texts[i])
	}
	return texts, nil
}

// dropTaskName removes the eight digits of work folders, which are a hash of the task's name
// (Concourse, atc/engine/step_factory.go).
func dropTaskName(text string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, taskFolders)
		if at < 0 {
			return out.String() + text
		}
		at += len(taskFolders)
		out.WriteString(text[:at])
		if text = text[at:]; len(text) >= taskDigits && isTask(taskFolders+text[:taskDigits]) {
			text = text[taskDigits:]
		}
	}
}

// imagePaths are in most images. Programs of a task change them after its create.
var imagePaths = []string{"bin", "etc/os-release", "opt", "usr", "usr/bin", "usr/lib", "usr/local"}

// imageDigest distinguishes images by the times and sizes of imagePaths in their root file
// systems. Containers of one image have equal digests. It returns "" if the file system
// cannot be opened.
func (b bundle) imageDigest(doc *rawjson.Doc) string {
	fd, err := b.openRootfs(doc)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	h := fnv.New64a()
	for _, path := range imagePaths {
		var st unix.Stat_t
		if at, err := openInRootfs(fd, path, 0); err == nil {
			_ = unix.Fstat(at, &st) // zero if it fails
			unix.Close(at)
		}
		text := strconv.AppendInt(nil, st.Mtim.Nano(), 16)
		text = strconv.AppendInt(append(text, ' '), st.Size, 16)
		_, _ = h.Write(append(text, '\n')) // it never fails
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// openRootfs opens the root file system of the container.
func (b bundle) openRootfs(doc *rawjson.Doc) (int, error) {
	root, err := doc.Root().Member("root", rawjson.Object)
	if err != nil {
		return -1, err
	}
	at, err := root.StringOf("path")
	if err != nil {
		return -1, err
	}
	// openat uses an absolute path as it is
	return unix.Openat(b.fd, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// openInRootfs opens a path of a root file system. The image made everything in it, so
// links cannot lead out of it, and the kernel's magic links are not followed.
func openInRootfs(rootfs int, path string, flags uint64) (int, error) {
	return unix.Openat2(rootfs, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

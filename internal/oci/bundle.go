package oci

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/nested"
)

const configName = "config.json"

// nestedSpec is the file of a privileged task's bundle that describes its GPUs. It goes
// with the bundle, whatever ends the container.
const nestedSpec = "amd-cdi.json"

// bundle is an open bundle directory, so that no path is resolved twice.
type bundle struct {
	fd   int
	path string
	st   unix.Stat_t // config.json as it was read
}

// anybody is the owner of a bundle where that says nothing: an engine without root gives
// it to the container's root (podman's --userns=keep-id), and all users that there are in
// its namespace are the same person.
const anybody = ^uint32(0)

func (w *wrapper) owner() uint32 {
	if w.rootless() {
		return anybody
	}
	return w.euid
}

// openBundle refuses a symbolic link at the end of the path, and a directory
// of another user.
func openBundle(path string, owner uint32) (bundle, error) {
	path = filepath.Clean(path)
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return noBundle, fmt.Errorf("cannot open bundle %s: %w", path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && owner != anybody && st.Uid != owner {
		err = fmt.Errorf("it belongs to user %d, not to %d", st.Uid, owner)
	}
	if err != nil {
		unix.Close(fd)
		return noBundle, fmt.Errorf("cannot use bundle %s: %w", path, err)
	}
	return bundle{fd: fd, path: path}, nil
}

var noBundle = bundle{fd: -1}

func (b *bundle) close() {
	if b.fd >= 0 {
		unix.Close(b.fd)
	}
}

func (b *bundle) name() string { return filepath.Join(b.path, configName) }

// read returns config.json, which has to be a regular file of this user.
func (b *bundle) read(owner uint32) ([]byte, error) {
	fd, err := unix.Openat(b.fd, configName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", b.name(), err)
	}
	data, st, err := readFD(fd)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", b.name(), err)
	}
	if owner != anybody && st.Uid != owner {
		return nil, fmt.Errorf("cannot use %s: it belongs to user %d, not to %d", b.name(), st.Uid, owner)
	}
	b.st = st
	return data, nil
}

// replace swaps config.json in one step, keeping its mode and owner. There is
// no fsync: a bundle does not outlive the machine's running.
func (b *bundle) replace(config [][]byte) error {
	temp := "." + configName + "." + strconv.Itoa(os.Getpid())
	mode := b.st.Mode & 0o700 // never more open than the old one, whoever its group is
	if b.st.Gid == uint32(os.Getegid()) {
		mode = b.st.Mode & 0o777
	}
	fd, err := unix.Openat(b.fd, temp, newFile, mode)
	if errors.Is(err, unix.EEXIST) { // of a process that had our number and was killed
		if err = unix.Unlinkat(b.fd, temp, 0); err == nil {
			fd, err = unix.Openat(b.fd, temp, newFile, mode)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", filepath.Join(b.path, temp), err)
	}
	if err = b.keepMode(fd); err == nil {
		err = writeAll(fd, config...)
	}
	err = cmp.Or(err, unix.Close(fd))
	if err == nil {
		err = unix.Renameat(b.fd, temp, b.fd, configName)
	}
	if err != nil {
		_ = unix.Unlinkat(b.fd, temp, 0) // the error that counts is the one above
		return fmt.Errorf("cannot replace %s: %w", b.name(), err)
	}
	return nil
}

// keepMode gives a new config.json the owner and mode of the one that was read.
func (b *bundle) keepMode(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != b.st.Uid || st.Gid != b.st.Gid {
		if err := unix.Fchown(fd, int(b.st.Uid), int(b.st.Gid)); err != nil {
			return err
		}
	}
	if st.Mode != b.st.Mode { // the umask took some of it
		return unix.Fchmod(fd, b.st.Mode&0o7777)
	}
	return nil
}

// describe has Docker and Podman inside a privileged task find the AMD GPUs that the task
// got, and no others, where they look for a machine's: the unit's own description would
// name those of other tasks, an image's those of another machine. A task without
// privileges can't start an engine, so it pays nothing.
func (w *wrapper) describe(e *edits.Edits, c *cmdline.Call, b bundle, f facts, specs []*cdispec.Spec, devices []cdispec.Device) error {
	if !f.task || f.userNS {
		return nil
	}
	amd := slices.DeleteFunc(slices.Clone(devices), func(d cdispec.Device) bool { return d.Spec.Kind != wellknown.AMDKind })
	if len(amd) == 0 {
		return nil
	}
	text, err := nested.Spec(specs, amd)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(c.Bundle)
	if err == nil {
		err = b.make(nestedSpec, text)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s of the task: %w", nestedSpec, err)
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: wellknown.AMDSpec, Type: "bind", Source: filepath.Join(dir, nestedSpec),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	return nil
}

// make makes a file of the bundle anew that a container's users may read.
func (b bundle) make(name string, data []byte) error {
	if err := unix.Unlinkat(b.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(b.fd, name, newFile, 0o644)
	if err != nil {
		return err
	}
	if err = unix.Fchmod(fd, 0o644); err == nil { // past the umask
		err = writeAll(fd, data)
	}
	return cmp.Or(err, unix.Close(fd))
}

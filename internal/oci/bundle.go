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

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/nested"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/visible"
)

const configName = "config.json"

// nestedSpec is the file in a privileged task's bundle that describes its GPUs. It is
// removed with the bundle, however the container ends.
const nestedSpec = "amd-cdi.json"

// bundle holds an open bundle directory, so that no path is resolved twice.
type bundle struct {
	fd   int
	path string
	st   unix.Stat_t // config.json as it was read
}

// anyOwner disables the check of a bundle's owner. An engine without root gives the bundle
// to the container's root (podman's --userns=keep-id), and all users of that namespace are
// one person.
const anyOwner = ^uint32(0)

func (w *wrapper) owner() uint32 {
	if w.rootless() {
		return anyOwner
	}
	return w.euid
}

// openBundle opens a bundle. It refuses a symbolic link at the end of the path and a
// directory of another user.
func openBundle(path string, owner uint32) (bundle, error) {
	path = filepath.Clean(path)
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return noBundle, fmt.Errorf("cannot open bundle %s: %w", path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && owner != anyOwner && st.Uid != owner {
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

// read returns config.json, which must be a regular file of this user.
func (b *bundle) read(owner uint32) ([]byte, error) {
	fd, err := unix.Openat(b.fd, configName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", b.name(), err)
	}
	data, st, err := readFD(fd)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", b.name(), err)
	}
	if owner != anyOwner && st.Uid != owner {
		return nil, fmt.Errorf("cannot use %s: it belongs to user %d, not to %d", b.name(), st.Uid, owner)
	}
	b.st = st
	return data, nil
}

// replace swaps config.json in one step and keeps its mode and owner. An fsync is not
// needed, because a bundle does not outlive a boot of the machine.
func (b *bundle) replace(config [][]byte) error {
	temp := "." + configName + "." + strconv.Itoa(os.Getpid())
	mode := b.st.Mode & 0o700 // never wider than the old mode, whichever group owns the new file
	if b.st.Gid == uint32(os.Getegid()) {
		mode = b.st.Mode & 0o777
	}
	fd, err := unix.Openat(b.fd, temp, newFile, mode)
	if errors.Is(err, unix.EEXIST) { // of a killed process that had this number
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
		_ = unix.Unlinkat(b.fd, temp, 0) // the error above is the one to report
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
	if st.Mode != b.st.Mode { // the umask removed bits
		return unix.Fchmod(fd, b.st.Mode&0o7777)
	}
	return nil
}

// describeNested puts a CDI spec of the task's AMD GPUs at the usual place of a machine's
// spec, so that Docker and Podman inside a privileged task find these GPUs and no others.
// The unit's own spec would name GPUs of other tasks, and the image's spec GPUs of another
// machine. A task without privileges cannot start an engine, so it gets no spec.
func (w *wrapper) describeNested(e *edits.Edits, c *cmdline.Call, b bundle, f facts,
	gpus []visible.GPU) error {
	if !f.task || f.userNS {
		return nil
	}
	amd := slices.DeleteFunc(slices.Clone(gpus), func(g visible.GPU) bool { return g.Spec.Kind != wellknown.AMDKind })
	if len(amd) == 0 {
		return nil
	}
	text, err := nested.Spec(amd)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(c.Bundle)
	if err == nil {
		err = b.makeFile(nestedSpec, text)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s of the task: %w", nestedSpec, err)
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: wellknown.AMDSpec, Type: "bind",
		Source:  filepath.Join(dir, nestedSpec),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	return nil
}

// makeFile writes a new file of the bundle that all users of the container may read.
func (b bundle) makeFile(name string, data []byte) error {
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

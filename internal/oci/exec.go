package oci

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
	"concourse-ci-machine/internal/oci/cmdline"
)

// exec adds to the process file of a container that create has marked, and
// enters its lease; so does start. Without a process file runc takes groups and
// environment from config.json. It returns the arguments for runc.
func (w *wrapper) exec(s *settings, c *cmdline.Call, args []string) ([]string, error) {
	if c.Process.Value == "" && s.Leases == nil {
		return args, nil
	}
	k, err := w.markers(s.State).load(c.ID)
	if err != nil || k.none() {
		return args, err
	}
	if c.Process.Value != "" && !k.process.None() {
		if args, err = changeProcess(args, c.Process, k.process, w.euid); err != nil {
			return nil, fmt.Errorf("cannot change process file %s: %w", c.Process.Value, err)
		}
	}
	return args, w.enterLease(s, c, k) // last, as nothing may fail after it
}

// changeProcess returns the arguments of an exec call with the process file
// swapped for a copy that has the groups and the environment. The caller's file
// stands in a shared directory and is not touched. The copy is a sealed memory
// file that runc inherits: nobody else can open it, and it is gone when runc is.
func changeProcess(args []string, file cmdline.Word, p edits.Process, euid uint32) ([]string, error) {
	data, st, err := readRegular(file.Value, true)
	if err != nil {
		return nil, err
	}
	if st.Uid != euid {
		return nil, fmt.Errorf("it belongs to user %d, not to %d", st.Uid, euid)
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	changed, err := p.Apply(doc)
	if err != nil || changed == nil {
		return args, err
	}
	fd, err := memoryFile(changed)
	if err != nil {
		return nil, err
	}
	args = slices.Clone(args)
	args[1+file.At] = file.Prefix + "/proc/self/fd/" + strconv.Itoa(fd)
	return args, nil
}

// firstFD keeps clear of the low numbers that --preserve-fds hands to the
// container, and below any usual limit of open files.
const firstFD = 100

// memoryFile returns a descriptor that survives execve.
func memoryFile(parts [][]byte) (int, error) {
	const name, flags = "process.json", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot make a memory file: %w", err)
	}
	defer unix.Close(fd)
	if err := writeAll(fd, parts...); err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return -1, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return -1, err
	}
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD, firstFD)
}

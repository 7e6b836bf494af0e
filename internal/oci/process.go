package oci

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// addGroupsToProcess returns the arguments of an exec call with the process
// file swapped for a copy that has the groups. The caller's file stands in a
// shared directory and is not touched. The copy is a sealed memory file that
// runc inherits: nobody else can open it, and it is gone when runc is.
func addGroupsToProcess(args []string, file word, groups []uint32, euid uint32) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("cannot add groups to process file %s: %w", file.value, err)
	}
	data, st, err := readRegular(file.value, true)
	if err != nil {
		return fail(err)
	}
	if st.Uid != euid {
		return fail(fmt.Errorf("it belongs to user %d, not to %d", st.Uid, euid))
	}
	process, err := decodeObject(data)
	if err != nil {
		return fail(err)
	}
	if err := addGroups(process, groups); err != nil {
		return fail(err)
	}
	if data, err = process.encode(); err != nil {
		return fail(err)
	}
	fd, err := memoryFile(data)
	if err != nil {
		return fail(err)
	}
	swapped := append([]string(nil), args...)
	swapped[file.at] = fmt.Sprintf("%s/proc/self/fd/%d", file.prefix, fd)
	return swapped, nil
}

// firstFD keeps clear of the low numbers that --preserve-fds hands to the
// container, and below any usual limit of open files.
const firstFD = 100

// memoryFile returns a descriptor that survives execve.
func memoryFile(data []byte) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("process.json", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("process.json", flags)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot make a memory file: %w", err)
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil {
			return -1, err
		}
		data = data[n:]
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

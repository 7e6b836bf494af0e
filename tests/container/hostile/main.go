// Command hostile is what a privileged task of the tests runs if a shell does not suffice.
// `hostile detach` takes the device rules of cgroup v2 away from the task's control group;
// called in any other way it reports whether another's GPU opens in its place.
package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "detach" {
		if err := detach(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if _, err := os.OpenFile("/dev/dri/renderD129", os.O_RDWR, 0); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("opens")
}

// detach works in a cgroup namespace that shows nothing above the task's control
// group: so it would in one that the task was given.
func detach() error {
	const dir = "/own"
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot make a cgroup namespace: %w", err)
	}
	if err := unix.Mount("none", dir, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("cannot mount the control groups: %w", err)
	}
	group, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	// These are members of union bpf_attr (linux/bpf.h).
	ids := make([]uint32, 64)
	query := struct {
		target, kind, flags, attached uint32
		ids                           *uint32
		count, _                      uint32
	}{target: uint32(group), kind: unix.BPF_CGROUP_DEVICE, ids: &ids[0], count: uint32(len(ids))}
	if _, err := bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&query), unsafe.Sizeof(query)); err != nil {
		return fmt.Errorf("cannot list the device programs: %w", err)
	}
	for _, id := range ids[:query.count] {
		byID := struct{ id, next, flags uint32 }{id: id}
		program, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&byID), unsafe.Sizeof(byID))
		if err != nil {
			return fmt.Errorf("cannot open device program %d: %w", id, err)
		}
		attached := struct{ target, program, kind, flags uint32 }{uint32(group), uint32(program), unix.BPF_CGROUP_DEVICE, 0}
		if _, err := bpf(unix.BPF_PROG_DETACH, unsafe.Pointer(&attached), unsafe.Sizeof(attached)); err != nil {
			return fmt.Errorf("cannot detach device program %d: %w", id, err)
		}
	}
	return nil
}

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (uintptr, error) {
	result, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return 0, errno
	}
	return result, nil
}

package rungroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Device is the number of a character device.
type Device struct{ Major, Minor uint32 }

// From uapi/linux/bpf.h.
const (
	progLoad         = 5    // BPF_PROG_LOAD
	progAttach       = 8    // BPF_PROG_ATTACH
	progTypeDevice   = 15   // BPF_PROG_TYPE_CGROUP_DEVICE
	attachTypeDevice = 6    // BPF_CGROUP_DEVICE
	allowMulti       = 2    // BPF_F_ALLOW_MULTI
	typeChar         = 2    // BPF_DEVCG_DEV_CHAR
	loadWord         = 0x61 // BPF_LDX | BPF_MEM | BPF_W
	jumpNotEqual     = 0x55 // BPF_JMP | BPF_JNE | BPF_K
	jumpEqual        = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	and              = 0x57 // BPF_ALU64 | BPF_AND | BPF_K
	set              = 0xb7 // BPF_ALU64 | BPF_MOV | BPF_K
	exit             = 0x95 // BPF_JMP | BPF_EXIT
)

// MaxDevices bounds a filter: its jumps have 16 bits.
const MaxDevices = 4096

// instruction is a struct bpf_insn.
type instruction struct {
	code      uint8
	registers uint8 // destination in the lower half, source in the upper
	offset    int16
	value     int32
}

// program returns the filter that refuses these devices and allows all others. The context
// is a struct bpf_cgroup_dev_ctx: access and type, major, minor.
func program(denied []Device) []instruction {
	const r0, kind, major, minor, context = 0, 2, 3, 4, 1 << 4
	if len(denied) == 0 { // the kernel refuses a program with a part that is never reached
		return []instruction{{set, r0, 0, 1}, {exit, 0, 0, 0}}
	}
	code := []instruction{
		{loadWord, kind | context, 0, 0},
		{and, kind, 0, 0xffff},
		{loadWord, major | context, 4, 0},
		{loadWord, minor | context, 8, 0},
		{jumpNotEqual, kind, int16(2 * len(denied)), typeChar},
	}
	for i, d := range denied {
		toRefuse := 2*(len(denied)-1-i) + 2 // behind the other devices and the end that allows
		code = append(code,
			instruction{jumpNotEqual, major, 1, int32(d.Major)},
			instruction{jumpEqual, minor, int16(toRefuse), int32(d.Minor)})
	}
	return append(code, instruction{set, r0, 0, 1}, instruction{exit, 0, 0, 0},
		instruction{set, r0, 0, 0}, instruction{exit, 0, 0, 0})
}

func encode(code []instruction) (data []byte) {
	for _, i := range code {
		data = append(data, i.code, i.registers)
		data = binary.NativeEndian.AppendUint16(data, uint16(i.offset))
		data = binary.NativeEndian.AppendUint32(data, uint32(i.value))
	}
	return data
}

// Deny makes the kernel refuse these devices to all processes in the group and below it. It
// adds to the filters of groups above, which stay valid.
//
// A program of forty bytes a device does not need a library: cilium/ebpf adds more than a
// megabyte to each program with this package.
func Deny(dir string, denied []Device) error {
	if len(denied) > MaxDevices {
		return fmt.Errorf("cannot limit devices of %s: there are %d", dir, len(denied))
	}
	group, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot limit devices: %w", err)
	}
	defer group.Close()
	filter, err := load(encode(program(denied)))
	if err != nil {
		return fmt.Errorf("cannot load a filter of devices: %w", err)
	}
	defer unix.Close(filter)
	attach := struct{ target, program, kind, flags uint32 }{
		uint32(group.Fd()), uint32(filter), attachTypeDevice, allowMulti,
	}
	if _, err := bpf(progAttach, unsafe.Pointer(&attach), unsafe.Sizeof(attach)); err != nil {
		return fmt.Errorf("cannot limit devices of %s: %w", dir, err)
	}
	return nil
}

// load gives a program to the kernel, which checks it, and returns its file.
func load(code []byte) (int, error) {
	license := []byte("GPL\x00")
	attr := struct {
		kind, count   uint32
		code, license uint64
		log           [3]uint64 // level and size, buffer, version and flags
	}{kind: progTypeDevice, count: uint32(len(code) / 8), code: address(code), license: address(license)}
	fd, err := bpf(progLoad, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	return fd, err
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EAGAIN: // a signal interrupted the kernel's check
		default:
			return -1, errno
		}
	}
}

package oci

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/oci/rawjson"
)

// environment is what the wrapper wants in the environment of a process.
type environment struct {
	set      []string // NAME=value, in place of what is there: CDI's rule
	defaults []string // NAME=value, where the process has no such variable
}

func (v environment) none() bool { return len(v.set)+len(v.defaults) == 0 }

// editProcess adds groups to user.additionalGids, and the environment.
func editProcess(process *rawjson.Node, groups []uint32, env environment) error {
	if !env.none() {
		if err := env.apply(process); err != nil {
			return err
		}
	}
	if len(groups) == 0 {
		return nil
	}
	user, err := process.Child("user")
	if err != nil {
		return err
	}
	number := func(g uint32, out []byte) []byte { return strconv.AppendUint(out, uint64(g), 10) }
	return rawjson.Append(user, "additionalGids", groups, number, oneOf(groups, number))
}

func (v environment) apply(process *rawjson.Node) error {
	own, err := process.Strings("env")
	if err != nil {
		return err
	}
	want := slices.Clone(v.set)
	for _, text := range v.defaults {
		name, _, _ := strings.Cut(text, "=")
		_, there := lookupLast(own, name)
		if _, set := lookupLast(want, name); !there && !set {
			want = append(want, text)
		}
	}
	// A variable with another value, or twice, goes; one that is right stays.
	want = slices.DeleteFunc(want, func(text string) bool { return count(own, nameOf(text)) == 1 && slices.Contains(own, text) })
	quoted := func(s string, out []byte) []byte { return rawjson.AppendString(out, s) }
	return rawjson.Append(process, "env", want, quoted, func(e rawjson.Value) bool {
		text := e.Text()
		return slices.ContainsFunc(want, func(w string) bool { return nameOf(w) == nameOf(text) })
	})
}

func nameOf(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

func count(env []string, name string) (n int) {
	for _, e := range env {
		if nameOf(e) == name {
			n++
		}
	}
	return n
}

// changeProcess returns the arguments of an exec call with the process file
// swapped for a copy that has the groups and the environment. The caller's file
// stands in a shared directory and is not touched. The copy is a sealed memory
// file that runc inherits: nobody else can open it, and it is gone when runc is.
func changeProcess(mem *memory, args []string, file word, k marker, euid uint32) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("cannot change process file %s: %w", file.value, err)
	}
	data, st, err := mem.readRegular(file.value, true)
	if err != nil {
		return fail(err)
	}
	if st.Uid != euid {
		return fail(fmt.Errorf("it belongs to user %d, not to %d", st.Uid, euid))
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return fail(err)
	}
	edit, err := rawjson.NewEdit(doc, mem.rest())
	if err != nil {
		return fail(err)
	}
	if err := editProcess(edit.Root(), k.groups, k.env); err != nil {
		return fail(err)
	}
	changed := edit.Parts()
	if changed == nil {
		return args, nil
	}
	fd, err := memoryFile(changed)
	if err != nil {
		return fail(err)
	}
	swapped := append([]string(nil), args...)
	swapped[file.at] = file.prefix + "/proc/self/fd/" + strconv.Itoa(fd)
	return swapped, nil
}

// firstFD keeps clear of the low numbers that --preserve-fds hands to the
// container, and below any usual limit of open files.
const firstFD = 100

// memoryFile returns a descriptor that survives execve.
func memoryFile(parts [][]byte) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("process.json", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("process.json", flags)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot make a memory file: %w", err)
	}
	defer unix.Close(fd)
	if err := writeParts(fd, parts); err != nil {
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

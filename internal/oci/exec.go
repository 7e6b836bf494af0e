package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
)

// exec adds groups and environment to the process file of a container that create has
// marked, and enters its lease. It also enters the lease at start. Without a process file
// runc takes groups and environment from config.json. exec returns the arguments for runc.
func (w *wrapper) exec(s *settings, c *cmdline.Call, args []string) ([]string, error) {
	if c.Process.Value == "" && s.Leases == nil {
		return args, nil
	}
	k, err := w.markers(s.State).load(c.ID)
	if err != nil || k.empty() {
		return args, err
	}
	if c.Process.Value != "" && !k.process.None() {
		if args, err = changeProcess(args, c.Process, k.process, w.euid); err != nil {
			return nil, fmt.Errorf("cannot change process file %s: %w", c.Process.Value, err)
		}
	}
	return args, w.enterLease(s, c, k) // last, because no later step may fail
}

// changeProcess returns the arguments of an exec call with the process file replaced by a
// copy that has the groups and the environment. The caller's file is in a shared directory
// and is not changed. The copy is a sealed memory file that runc inherits: no other process
// can open it, and it ends with runc.
func changeProcess(args []string, file cmdline.Word, p edits.Process, euid uint32) ([]string, error) {
	data, st, err := readNoFollow(file.Value)
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

// firstFD is above the low numbers that --preserve-fds passes to the container, and below
// any usual limit of open files.
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

// marker keeps, from create to exec, the groups and environment that each process of a
// container needs, and the GPUs that the container leased. Concourse takes the environment
// of an exec from its own records and not from the config.json that create changed, and
// groups from /etc/passwd.
type marker struct {
	bundle  string // absolute; without it the marker is void
	process edits.Process
	lease   heldLease // empty if GPUs are shared
}

func (k marker) empty() bool { return k.process.None() && k.lease.empty() }

// members declares the format of a marker.
func (k *marker) members(c *rawjson.Codec) {
	c.Version(1)
	c.String("bundle", &k.bundle)
	c.Member("groups", rawjson.Array, k.readGroups, k.appendGroups)
	c.Strings("set", &k.process.Env.Set)
	c.Strings("defaults", &k.process.Env.Defaults)
	c.OptionalObject("lease", k.lease.empty(), k.lease.members)
}

func (k *marker) readGroups(groups rawjson.Value) error {
	for v := range groups.Elements() {
		g, err := v.Whole(1<<32 - 1)
		if err != nil {
			return err
		}
		k.process.Groups = append(k.process.Groups, uint32(g))
	}
	return nil
}

func (k *marker) appendGroups(out []byte) []byte {
	out = append(out, '[')
	for i, g := range k.process.Groups {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(g), 10)
	}
	return append(out, ']')
}

func (k marker) appendTo(out []byte) []byte { return rawjson.Encode(out, k.members) }

func decodeMarker(data []byte) (k marker, err error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return k, err
	}
	err = rawjson.Decode(doc.Root(), k.members)
	return k, err
}

// markers manages a directory of mode 0700 with one file of mode 0600 for each container.
type markers struct {
	dir  string
	euid uint32
	now  time.Time
}

func (w *wrapper) markers(dir string) markers { return markers{dir, w.euid, w.now()} }

// path refuses IDs that are not plain file names. runc refuses them too.
func (m markers) path(id string) (string, error) {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
	invalid := strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
	if id == "" || id == "." || id == ".." || len(id) > 200 || invalid {
		return "", fmt.Errorf("cannot use container ID %q: it must be at most 200 letters, digits, _, +, . and -", id)
	}
	return filepath.Join(m.dir, id), nil
}

// load returns the marker of a container, which is usually empty.
func (m markers) load(id string) (marker, error) {
	path, err := m.path(id)
	if err != nil {
		return marker{}, err
	}
	data, st, err := readNoFollow(path)
	if errors.Is(err, unix.ENOENT) {
		return marker{}, nil
	}
	if err == nil && st.Uid != m.euid {
		err = fmt.Errorf("it belongs to user %d", st.Uid)
	}
	var k marker
	if err == nil {
		k, err = decodeMarker(data)
	}
	if err != nil {
		return marker{}, fmt.Errorf("cannot read marker %s: %w", path, err)
	}
	return k, nil
}

// save replaces the marker in one step and, now and then, removes markers of containers
// that no longer exist.
func (m markers) save(id string, k marker) error {
	path, err := m.path(id)
	if err != nil {
		return err
	}
	if err := privateDir(m.dir, m.euid); err != nil {
		return err
	}
	if m.now.Nanosecond()/1000%sweepEvery == 0 { // as good as a die
		m.sweep()
	}
	if k.bundle, err = filepath.Abs(k.bundle); err != nil {
		return err
	}
	temp := m.dir + "/%" + strconv.Itoa(os.Getpid()) // no ID has a %
	if err = writeNew(temp, k.appendTo(nil)); err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		_ = unix.Unlink(temp) // the earlier error is the one to report
		return fmt.Errorf("cannot write marker of container %s: %w", id, err)
	}
	return nil
}

// remove drops the marker of an earlier container of the same name.
func (m markers) remove(id string) error {
	path, err := m.path(id)
	if err != nil {
		return err
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove marker of an earlier container: %w", err)
	}
	return nil
}

// One in sweepEvery creates, chosen at random, checks up to sweptAtOnce markers of other
// containers. This is two for each marker that is added, so there are at most about as many
// void markers as live ones.
const (
	sweepEvery  = 8
	sweptAtOnce = 2 * sweepEvery
)

// sweep removes markers of removed bundles, among up to sweptAtOnce that it picks by the
// time. `delete` cannot do so, because it becomes the real runc at once.
func (m markers) sweep() {
	fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the next write to the same directory reports the reason
	}
	defer unix.Close(fd)
	names, err := readNames(fd)
	if err != nil {
		return
	}
	for i := range min(sweptAtOnce, len(names)) {
		path := m.dir + "/" + names[(m.now.Nanosecond()/1000/sweepEvery+i)%len(names)]
		if m.void(path) {
			_ = unix.Unlink(path) // another create may have been quicker
		}
	}
}

// void reports whether a marker's container cannot exist: its bundle is missing, or the
// create that made the marker was killed before writing it.
func (m markers) void(path string) bool {
	data, st, err := readNoFollow(path)
	if err != nil {
		return false
	}
	if len(data) == 0 {
		return m.now.Sub(time.Unix(st.Mtim.Unix())) > time.Minute
	}
	k, err := decodeMarker(data)
	if err != nil || k.bundle == "" {
		return false
	}
	return errors.Is(unix.Lstat(filepath.Join(k.bundle, configName), &unix.Stat_t{}), unix.ENOENT)
}

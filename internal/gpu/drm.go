package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

const (
	drmClass = "/sys/class/drm"
	platform = "/sys/devices/platform"
)

// isPartition reports whether amdgpu created a platform device for one of the partitions 1
// to 7 of a GPU (drivers/gpu/drm/amd/amdxcp): amdgpu_xcp_N, and amdgpu_xcp.N before a patch
// of 2024-04-30, as in Ubuntu 24.04's kernel 6.8.
func isPartition(name string) bool {
	return strings.HasPrefix(name, "amdgpu_xcp_") || strings.HasPrefix(name, "amdgpu_xcp.")
}

// drmDevice holds a device and the DRM nodes of its driver.
type drmDevice struct {
	dir    string            // the device's directory: parent of drm/
	card   string            // "card1", or ""
	render string            // "renderD128", or ""
	class  map[string]string // node name -> its sysfs directory, with `dev`
}

func (d *drmDevice) partition() bool { return isPartition(path.Base(d.dir)) }

// minorOf splits "card12" into ("card", 12) and "renderD128" into ("renderD", 128). It
// rejects connectors ("card0-DP-1"), "version" and "ttm".
func minorOf(name string) (kind string, n uint32, ok bool) {
	for _, kind := range []string{"card", "renderD"} {
		if digits, found := strings.CutPrefix(name, kind); found {
			n, err := strconv.ParseUint(digits, 10, 20) // minors have 20 bits
			return kind, uint32(n), err == nil
		}
	}
	return "", 0, false
}

// drmList holds DRM devices in the order found, and by their directories.
type drmList struct {
	devs  []*drmDevice
	byDir map[string]*drmDevice
}

// add records the node name of the device dir, described by the directory at.
func (l *drmList) add(dir, name, at string) {
	kind, _, ok := minorOf(name)
	if !ok {
		return
	}
	d := l.byDir[dir]
	if d == nil {
		d = &drmDevice{dir: dir, class: map[string]string{}}
		l.byDir[dir] = d
		l.devs = append(l.devs, d)
	}
	if kind == "card" && d.card == "" {
		d.card = name
	}
	if kind == "renderD" && d.render == "" {
		d.render = name
	}
	d.class[name] = at
}

// drmDevices lists /sys/class/drm and groups the nodes by device. It reads only names and
// links.
func drmDevices(r host.Root) (*drmList, error) {
	l := &drmList{byDir: map[string]*drmDevice{}}
	entries, err := r.ReadDir(drmClass)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list GPUs: %w", err)
	}
	for _, e := range entries {
		if _, _, ok := minorOf(e.Name()); ok {
			at := path.Join(drmClass, e.Name())
			l.add(deviceDir(r, at), e.Name(), at)
		}
	}
	return l, nil
}

// addPartitions also lists the platform devices, to find partitions that the class does not
// show.
func (l *drmList) addPartitions(r host.Root) {
	entries, err := r.ReadDir(platform)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := path.Join(platform, e.Name())
		if !isPartition(e.Name()) || l.byDir[dir] != nil {
			continue
		}
		nodes, err := r.ReadDir(path.Join(dir, "drm"))
		if err != nil {
			continue
		}
		for _, n := range nodes {
			l.add(dir, n.Name(), path.Join(dir, "drm", n.Name()))
		}
	}
}

// deviceDir returns the device of a DRM class entry. The entry is a link to
// DEVICE/drm/NAME, or a directory with a link `device`.
func deviceDir(r host.Root, entry string) string {
	if to := target(r, entry); path.Base(path.Dir(to)) == "drm" {
		return path.Dir(path.Dir(to))
	}
	device := path.Join(entry, "device")
	if to, err := r.Resolve(device); err == nil {
		return to
	}
	return device
}

// addMinors adds the numbers of a device's nodes. The kernel names each node by its number.
func (i *Inventory) addMinors(v Vendor, dev *drmDevice) {
	if i.Minors == nil {
		i.Minors = map[Vendor][]uint32{}
	}
	for name := range dev.class {
		if _, n, ok := minorOf(name); ok {
			i.Minors[v] = append(i.Minors[v], n)
		}
	}
	slices.Sort(i.Minors[v])
}

// join adds the nodes of the same device that were found through another directory. If
// class entries are not links, each has a separate device directory.
func (d *drmDevice) join(o *drmDevice) {
	d.card = cmp.Or(d.card, o.card)
	d.render = cmp.Or(d.render, o.render)
	maps.Copy(d.class, o.class)
}

const (
	driDir        = "/dev/dri"
	containerFile = "/run/systemd/container" // systemd: "lxc" in an LXD unit
)

// OverflowID is shown for an id without a mapping, see user_namespaces(7).
const OverflowID = 65534

// verdict explains why a node cannot be used.
type verdict struct {
	reason Reason
	text   string
}

// node finds the DRM node name in /dev/dri and compares its number with the one in sysfs.
func (d *discovery) node(dev *drmDevice, name string) (host.Node, *verdict) {
	p := path.Join(driDir, name)
	n, err := d.root.Node(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, &verdict{NotPassedThrough, fmt.Sprintf("%s is not there: %s", p, NotPassedThrough.Text())}
	case errors.Is(err, host.ErrNotDevice):
		return n, &verdict{NotADevice, fmt.Sprintf("%s is not a character device", p)}
	case err != nil:
		return n, &verdict{Unreadable, err.Error()}
	}
	text, err := read(d.root, path.Join(dev.class[name], "dev"))
	if errors.Is(err, errHangs) {
		return n, &verdict{Hangs, Hangs.Text()}
	}
	if err != nil {
		return n, &verdict{SysfsUnreadable, fmt.Sprintf("sysfs gives no device number for %s", name)}
	}
	major, minor, err := host.ParseNumber(text)
	switch {
	case err != nil:
		return n, &verdict{SysfsUnreadable, err.Error()}
	case !n.Is(major, minor):
		return n, &verdict{WrongNumber, fmt.Sprintf("%s is %s, but sysfs shows %d:%d", p, n.Number(), major, minor)}
	case !reachable(d.root.Root, n):
		return n, &verdict{Unreadable, unreachableText(n)}
	}
	n.Major, n.Minor = major, minor
	return n, nil
}

// reachable reports whether root may open the node for reading and writing. In a container
// it depends on the owner: if owner or group are not mapped, the kernel hides
// CAP_DAC_OVERRIDE (privileged_wrt_inode_uidgid) and the permission bits decide.
func reachable(r host.Root, n host.Node) bool {
	const read, write = 0o4, 0o2
	if n.Any || n.UID != OverflowID && n.GID != OverflowID {
		return true // an empty stand-in has no meaningful owner
	}
	bits := n.Mode & 0o7
	switch {
	case n.UID == 0:
		bits = n.Mode >> 6 & 0o7
	case n.GID == 0:
		bits = n.Mode >> 3 & 0o7
	}
	return bits&(read|write) == read|write || !r.Exists(containerFile)
}

func unreachableText(n host.Node) string {
	return fmt.Sprintf("%s has mode %04o and belongs to an owner outside this container (%d:%d)", n.Path, n.Mode,
		n.UID, n.GID)
}

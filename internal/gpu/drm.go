package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

const (
	drmClass = "/sys/class/drm"
	platform = "/sys/devices/platform"
)

// isPartition reports whether a platform device is one that amdgpu makes for
// partitions 1 to 7 of a GPU (drivers/gpu/drm/amd/amdxcp): amdgpu_xcp_N, and
// amdgpu_xcp.N before a patch of 2024-04-30, as in Ubuntu 24.04's kernel 6.8.
func isPartition(name string) bool {
	return strings.HasPrefix(name, "amdgpu_xcp_") || strings.HasPrefix(name, "amdgpu_xcp.")
}

// drmDevice is a device with the DRM nodes that its driver made.
type drmDevice struct {
	dir    string            // the device's directory: parent of drm/
	card   string            // "card1", "" when none
	render string            // "renderD128", "" when none
	class  map[string]string // node name -> its sysfs directory, with `dev`
}

func (d *drmDevice) partition() bool { return isPartition(path.Base(d.dir)) }

// minorOf splits "card12" into ("card", 12), "renderD128" into ("renderD",
// 128). Connectors ("card0-DP-1"), "version" and "ttm" are refused.
func minorOf(name string) (kind string, n uint32, ok bool) {
	for _, kind := range []string{"card", "renderD"} {
		if digits, found := strings.CutPrefix(name, kind); found {
			n, err := strconv.ParseUint(digits, 10, 20) // minors have 20 bits
			return kind, uint32(n), err == nil
		}
	}
	return "", 0, false
}

// drmList is DRM devices in the order found, with their directories as keys.
type drmList struct {
	devs  []*drmDevice
	byDir map[string]*drmDevice
}

// add notes the node name of the device dir, described by the directory at.
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

// drmDevices lists /sys/class/drm and groups the nodes by their device. It
// reads names and links only.
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

// addPartitions lists the platform devices too: partitions are in the class
// as well, and this finds them where it does not show them.
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

// deviceDir is the device that a DRM class entry belongs to. The entry is a
// link to DEVICE/drm/NAME; where it is a directory itself, its `device` leads on.
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

// join adds the nodes of the same device seen through another directory:
// where class entries are no links, each has a device directory of its own.
func (d *drmDevice) join(o *drmDevice) {
	d.card = cmp.Or(d.card, o.card)
	d.render = cmp.Or(d.render, o.render)
	maps.Copy(d.class, o.class)
}

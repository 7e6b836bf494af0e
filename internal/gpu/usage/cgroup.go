package usage

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// place holds the container and the control group of a process.
type place struct {
	container string   // "": no known container
	dirs      []string // machine paths where its control group may be mounted; none if unknown
}

const (
	maxContainer = 64
	hexID        = 64 // Docker, Podman, containerd and CRI-O
	shortID      = 12 // as shown by their own tools
)

// placeOf finds the outermost container in the text of /proc/<pid>/cgroup. It skips own,
// the containers that the exporter itself runs in. Containers inside a task's container
// belong to the task.
func placeOf(text string, own []string) place {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		controllers, p, found := strings.Cut(rest, ":")
		if !ok || !found {
			continue
		}
		parts := strings.Split(p, "/")
		for i := range parts {
			if id := containerID(parts, i); id != "" && !slices.Contains(own, id) {
				return place{id, groupDirs(controllers, parts[:i+1])}
			}
		}
	}
	return place{}
}

// containersOf lists all containers in the text, outermost first.
func containersOf(text string) []string {
	var all []string
	for {
		p := placeOf(text, all)
		if p.container == "" {
			return all
		}
		all = append(all, p.container)
	}
}

// containerID returns the container with the control group of the i-th part of a path.
// Concourse's containers are garden/<handle>, privileged ones only <handle>, which is a
// UUID (OciCgroupsPath in worker/runtime/spec). LXC's are lxc.payload.<name>. A run of gpukit
// has gpukit-run-<hex digits>, and is a container here. Others have 64 hex digits, bare or as
// docker-<id>.scope.
func containerID(parts []string, i int) string {
	part := strings.TrimSuffix(parts[i], ".scope")
	name, lxc := strings.CutPrefix(part, "lxc.payload.")
	switch {
	case part == "":
		return ""
	case lxc:
	case i > 0 && (parts[i-1] == "garden" || parts[i-1] == "lxc"):
		name = part
	case wellknown.IsHandle(part):
		name = part
	case strings.HasPrefix(part, "gpukit-run-"):
		name = strings.TrimPrefix(part, "gpukit-")
	default:
		name = part[strings.LastIndexByte(part, '-')+1:]
		if len(name) != hexID || !isHex(name) {
			return ""
		}
		name = name[:shortID]
	}
	return name[:min(len(name), maxContainer)]
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// groupDirs returns the mount points of the control group: one in cgroup v2, below a folder
// for each controller in v1.
func groupDirs(controllers string, parts []string) []string {
	if slices.Contains(parts, "..") { // in another namespace: not mounted here
		return nil
	}
	const root = "/sys/fs/cgroup"
	group := path.Join(parts...)
	if controllers == "" {
		return []string{path.Join(root, group), path.Join(root, "unified", group)}
	}
	hierarchy := strings.TrimPrefix(controllers, "name=")
	if !filepath.IsLocal(hierarchy) || hierarchy == "." {
		return nil
	}
	return []string{path.Join(root, hierarchy, group)}
}

// removed reports whether the container's control group no longer exists.
func (p place) removed(root host.Root) bool { return !slices.ContainsFunc(p.dirs, root.Exists) }

// addPeaks adds the peak of the GPU's own memory for each container, if the kernel counts
// it in the container's control group. It skips divided GPUs, because a region of memory
// belongs to the whole GPU.
func (s *Scanner) addPeaks(rows []Row, l *ledger, d gpu.Slot, devices []gpu.Slot) {
	if slices.ContainsFunc(devices, func(o gpu.Slot) bool { return o != d && o.PCI == d.PCI }) {
		return
	}
	for i, r := range rows {
		if r.Container == "" || r.Container == Other {
			continue
		}
		for _, dir := range l.totals[r.Container].place.dirs {
			if text, err := sysfile.ReadOnce(s.root.Path(path.Join(dir, "dmem.peak"))); err == nil {
				rows[i].Peak = peakOf(string(text), d.PCI)
				break
			}
		}
	}
}

// peakOf reads dmem.peak (Documentation/admin-guide/cgroup-v2.rst, "DMEM"), which has a
// line for each region of device memory with the most bytes since the control group was
// created, such as "drm/0000:03:00.0/vram0 8589934592". The sum of several regions may
// exceed the peak at any single time. A GPU without a line has no peak.
func peakOf(text, pci string) (peak []Amount) {
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		region, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(bytes, 10, 64)
		if err == nil && strings.HasPrefix(region, "drm/"+pci+"/vram") {
			sum, found = sum+float64(n), true
		}
	}
	if found {
		peak = []Amount{{"vram", sum}}
	}
	return peak
}

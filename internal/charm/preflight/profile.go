package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// volumes is the folder of images, caches and outputs of builds.
const volumes = "/var/lib/concourse"

// Builds for ROCm need these: images of ROCm with torch take tens of GB each, and compiling
// for several architectures takes gigabytes for each processor.
const (
	builderRAM  = 64 * units.GB
	builderDisk = 200 * units.GB
)

// profile compares a worker for ROCm with the needs of ROCm builds. It only warns.
func (p *preflight) profile() []Check {
	const name, remedy = "profile", "use a larger machine unless your builds need less"
	var checks []Check
	if ram := p.ram(); ram != 0 && ram < builderRAM {
		checks = append(checks, warn(name, remedy, "%s of memory; builds for ROCm need %s", units.FormatGB(ram),
			units.FormatGB(builderRAM)))
	}
	where := volumes
	if !p.Host.Exists(where) {
		where = "/"
	}
	if total, _, err := p.free(where); err == nil && total < builderDisk {
		checks = append(checks, warn(name, remedy, "a disk of %s; images and caches of ROCm builds need %s",
			units.FormatGB(total), units.FormatGB(builderDisk)))
	}
	if p.rotates(where) {
		checks = append(checks, warn(name, "put "+volumes+" on an SSD", "the disk of %s rotates; volumes of builds need an SSD",
			where))
	}
	if checks == nil {
		checks = []Check{ok(name, "memory and disk are enough for builds for ROCm")}
	}
	return checks
}

// rotational reports whether the kernel knows the disk of a folder as one that rotates. The
// disk of a ZFS or Btrfs file system, and so of most LXD containers, is unknown.
func (p *preflight) rotational(folder string) bool {
	var st unix.Stat_t
	if unix.Stat(p.Host.Path(folder), &st) != nil {
		return false
	}
	device := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	return p.diskRotates(device)
}

// diskRotates reads the queue of a disk, or of the disk that a partition is on.
func (p *preflight) diskRotates(device string) bool {
	text, err := p.Host.ReadText(device + "/queue/rotational")
	if errors.Is(err, fs.ErrNotExist) {
		if device, err = p.Host.Resolve(device); err == nil {
			text, err = p.Host.ReadText(path.Dir(device) + "/queue/rotational")
		}
	}
	return err == nil && text == "1"
}

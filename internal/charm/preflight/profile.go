package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

// volumes is the folder of images, caches and outputs of builds.
const volumes = "/var/lib/concourse"

// builder holds what a worker for ROCm needs: images of ROCm with torch take tens of GB each,
// and compiling for several architectures takes gigabytes for each processor.
var builder = config.Limits{RAM: 64 * units.GB, Disk: 200 * units.GB}

// profile compares a worker for ROCm with the needs of ROCm builds. It only warns. The limits
// of an operator replace it.
func (p *preflight) profile() []Check {
	if p.cfg.Driver.PreflightLimits != config.DefaultLimits {
		return nil
	}
	const name, remedy = "profile", "use a larger machine, or set preflight-limits to the GB that your builds need"
	var checks []Check
	if ram := p.ram(); ram != 0 && ram < builder.RAM {
		checks = append(checks, warn(name, remedy, "%s of memory; builds for ROCm need %s", units.FormatGB(ram),
			units.FormatGB(builder.RAM)))
	}
	where := volumes
	if !p.Host.Exists(where) {
		where = "/"
	}
	if total, _, err := p.free(where); err == nil && total < builder.Disk {
		checks = append(checks, warn(name, remedy, "a disk of %s; images and caches of ROCm builds need %s",
			units.FormatGB(total), units.FormatGB(builder.Disk)))
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

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// supportedSeries lists the series of Ubuntu that the charm is built for. debianSeries
// lists the series of Debian on which a machine without Juju is tested.
var (
	supportedSeries = []string{"focal", "jammy", "noble", "resolute"}
	debianSeries    = []string{"bookworm", "trixie"}
)

const (
	minCPUs = 2
	// lowDisk is the free space below which builds soon fail. Volumes of images and caches
	// take gigabytes each.
	lowDisk = 5 * units.GB
	minDisk = 20 * units.GB // free, for the releases, images and caches of a small unit
	minRAM  = 4 * units.GB
)

// constrained returns an advice with Juju's constraint that follows it.
func (p *preflight) constrained(advice, constraint string) string {
	if p.commands.WithoutJuju() {
		return advice
	}
	return advice + " (--constraints " + constraint + ")"
}

func (p *preflight) series() Check {
	m, fix := p.machine, "deploy to --base ubuntu@24.04"
	if p.commands.WithoutJuju() {
		fix = "use Debian 12 or newer or Ubuntu 22.04 or newer"
	}
	fix += "; AMD has packages for some series of Ubuntu only"
	switch {
	case m.Series == "":
		return warn("series", fix, "/etc/os-release names no series")
	case p.commands.WithoutJuju() && m.Distro == "debian" && slices.Contains(debianSeries, m.Series):
	case m.Distro != "ubuntu" || !slices.Contains(supportedSeries, m.Series):
		return warn("series", fix, "%s %s is not tested with this charm", m.Distro, m.Series)
	}
	return ok("series", "%s%s %s", strings.ToUpper(m.Distro[:1]), m.Distro[1:], m.Series)
}

func (p *preflight) kernel() Check {
	text, _ := p.Host.ReadText("/proc/sys/kernel/osrelease")
	var major, minor int
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n != 2 {
		return warn("kernel", "run uname -r on the machine", "its version can't be read")
	}
	switch {
	case major < 4 || major == 4 && minor < 19:
		return failure("kernel", "use a base with Linux 5.15 or newer",
			"Linux %s is too old for Concourse's containerd", text)
	case !p.machine.RecursiveReadonly:
		return warn("kernel", "use Linux 5.12 or newer",
			"Linux %s can't make mounts below folders of /srv read-only for tasks", text)
	}
	return ok("kernel", "Linux %s", text)
}

func (p *preflight) cpu() Check {
	data, err := p.Host.ReadFile("/proc/cpuinfo")
	n := 0
	for line := range strings.Lines(string(data)) {
		if key, _, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "processor" {
			n++
		}
	}
	switch {
	case err != nil || n == 0:
		return warn("cpu", "run nproc on the machine", "/proc/cpuinfo names no processor")
	case n < minCPUs:
		return warn("cpu", p.constrained("use 2 processors or more", "cores=2"),
			"%d processor; builds are slow and the worker's answers late with fewer than %d", n,
			minCPUs)
	}
	return ok("cpu", "%d processors", n)
}

// ram returns the memory of the machine in bytes, 0 if it is unknown.
func (p *preflight) ram() uint64 {
	data, err := p.Host.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kb uint64
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "MemTotal:"); found {
			fmt.Sscanf(rest, "%d kB", &kb)
		}
	}
	return kb * 1024
}

func (p *preflight) memory() Check {
	total := p.ram()
	switch {
	case total == 0:
		return warn("memory", "run free on the machine", "/proc/meminfo has no total")
	case total < minRAM:
		return warn("memory", p.constrained("use more memory", "mem=..."), "%s, less than %s", units.FormatGB(total),
			units.FormatGB(minRAM))
	}
	return ok("memory", "%s", units.FormatGB(total))
}

// disks checks / and the file system of releases and volumes, if it is a separate one.
func (p *preflight) disks() []Check {
	var checks []Check
	var seen [][2]uint64
	for _, path := range []string{"/", volumes} {
		if path != "/" && !p.Host.Exists(path) {
			continue
		}
		total, free, err := p.free(path)
		if slices.Contains(seen, [2]uint64{total, free}) && err == nil {
			continue
		}
		seen = append(seen, [2]uint64{total, free})
		name := "disk " + path
		switch remedy := p.constrained("give the machine a larger disk", "root-disk=..."); {
		case err != nil:
			checks = append(checks, warn(name, "run df on the machine", "cannot read its space: %v", err))
		case free < min(lowDisk, total/4):
			checks = append(checks, failure(name, "remove what fills it, or give the machine a larger disk",
				"%s of %s are free; builds fail soon", units.FormatGB(free), units.FormatGB(total)))
		case free < minDisk:
			checks = append(checks, warn(name, remedy, "%s of %s are free, less than %s", units.FormatGB(free),
				units.FormatGB(total), units.FormatGB(minDisk)))
		default:
			checks = append(checks, ok(name, "%s of %s are free", units.FormatGB(free), units.FormatGB(total)))
		}
	}
	return checks
}

// earliestTime is before the time of any correct clock.
var earliestTime = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *preflight) clock() Check {
	now := p.Host.Now()
	if now.Before(earliestTime) {
		return failure("time", "set the clock: timedatectl set-ntp true",
			"the clock shows %s; no certificate is valid then", now.UTC().Format(time.DateOnly))
	}
	if p.machine.Container != "" {
		return ok("time", "%s; the host keeps the clock", now.UTC().Format(time.RFC3339))
	}
	synced, err := p.synced()
	switch {
	case p.Host.Exists("/run/systemd/timesync/synchronized"), err == nil && synced:
		return ok("time", "%s, from a time server", now.UTC().Format(time.RFC3339))
	case err != nil:
		return warn("time", "run timedatectl on the machine",
			"the kernel does not report whether its clock is right: %v", err)
	}
	return warn("time", "timedatectl set-ntp true, and let the machine reach a time server",
		"%s, and no time server keeps it right; logins and certificates depend on it",
		now.UTC().Format(time.RFC3339))
}

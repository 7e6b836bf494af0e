package resource

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// Package describes an installed Debian package. Its steps wait for other users of apt and
// never remove a lock.
type Package struct {
	Name string
	// Version is the whole version, or its beginning up to a character that ends a number:
	// "1.2.0" accepts 1.2.0 and 1.2.0-24.04. "" accepts any.
	Version  string
	Source   *AptSource // nil for the machine's own sources
	Proxies  Proxies
	Tolerate bool       // see plan.Step
	Preserve *Preserved // files to preserve from its scripts; nil for none

	pause time.Duration // between two tries for the lock of the lists; 0 means 5 s
}

const (
	lockTimeout   = 10 * time.Minute // for dpkg's lock; apt itself waits for it
	updateLimit   = 5 * time.Minute
	installLimit  = 30 * time.Minute // killing dpkg midway leaves a half-configured package
	listsPause    = 5 * time.Second
	listsAttempts = int(lockTimeout / listsPause)
)

// Diff implements plan.Resource.
func (p Package) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	st, err := ReadPackage(h.Root, p.Name)
	if err != nil {
		return nil, err
	}
	why := ""
	switch {
	case st.Broken():
		why = st.Status + ": an earlier installation did not finish"
	case !st.Installed():
		why = "not installed"
	case !versionMatches(st.Version, p.Version):
		why = fmt.Sprintf("version %s, want %s", st.Version, p.Version)
	default:
		return nil, nil
	}
	update, err := p.update(h.Root)
	if err != nil {
		return nil, err
	}
	install, preserved := p.install(st), p.Preserve
	if !st.Installed() && !st.Broken() {
		preserved = nil // it has no installed script that could run
	}
	return plan.Plan{
		{Op: "update package lists for " + p.Name, Why: why, Tolerate: p.Tolerate, Do: func(ctx context.Context) error {
			return p.waitForLists(ctx, h, update)
		}},
		preserved.wrap(h, plan.Step{Op: "install " + p.Name, Why: why, Tolerate: p.Tolerate,
			Do: func(ctx context.Context) error { return runApt(ctx, h, install) }}),
	}, nil
}

// versionMatches reports whether have is want, or continues it with a character that is not
// part of its last number or word.
func versionMatches(have, want string) bool {
	rest, ok := strings.CutPrefix(have, want)
	return ok && (want == "" || rest == "" || strings.ContainsRune("-+~", rune(rest[0])))
}

// update fetches only the lists of the package's source. If the machine has no lists of
// other sources, as a fresh image, update fetches all, because dependencies need them.
func (p Package) update(r host.Root) (host.Command, error) {
	// Without --error-on=any an unreachable repository is a warning and exit 0.
	c := host.Command{Argv: []string{"apt-get", "update", "--error-on=any"}, Deadline: updateLimit, Env: p.env()}
	if p.Source == nil {
		return c, nil
	}
	found, err := r.Glob("/var/lib/apt/lists/*Release")
	if err != nil {
		return c, err
	}
	for _, f := range found {
		if !p.Source.lists(f[strings.LastIndexByte(f, '/')+1:]) {
			c.Argv = append(c.Argv, "-o", "Dir::Etc::sourcelist="+p.Source.list(),
				"-o", "Dir::Etc::sourceparts=-", "-o", "APT::Get::List-Cleanup=0")
			break
		}
	}
	return c, nil
}

func (p Package) install(st PackageState) host.Command {
	what := p.Name
	if p.Version != "" {
		what += "=" + p.Version
		if !strings.ContainsAny(p.Version, "-+~") { // may be the beginning of a version; apt accepts patterns
			what += "*"
		}
	}
	argv := []string{"apt-get", "install", "--yes", "--no-install-recommends",
		"-o", fmt.Sprintf("DPkg::Lock::Timeout=%d", int(lockTimeout.Seconds())),
		"-o", "Dpkg::Use-Pty=0", // otherwise dpkg's error is not on stderr
		"-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"}
	if st.Version != "" && !versionMatches(st.Version, p.Version) {
		argv = append(argv, "--allow-downgrades") // the wanted version may be older
	}
	if st.Reinst {
		argv = append(argv, "--reinstall")
	}
	return host.Command{Argv: append(argv, what), Deadline: installLimit, Env: p.env()}
}

// Added returns the packages that the installation would add to the machine now, as apt
// simulates it. It waits for other users of dpkg before, because those may add some of them.
func (p Package) Added(ctx context.Context, h host.Host) ([]string, error) {
	unlock, err := lockDpkg(ctx, h.Root)
	if err != nil {
		return nil, err
	}
	defer unlock()
	st, err := ReadPackage(h.Root, p.Name)
	if err != nil {
		return nil, err
	}
	c := p.install(st)
	c.ReadOnly = true
	c.Argv = append(c.Argv, "--simulate")
	out, err := h.Run(ctx, c)
	// "Inst name (version ...)"; an upgrade has the old version in brackets before.
	return simulated(out, func(f []string) bool { return f[0] == "Inst" && !strings.HasPrefix(f[2], "[") }), err
}

// removed returns the packages that a simulation of apt removes or purges.
func removed(simulation []byte) []string {
	return simulated(simulation, func(f []string) bool { return f[0] == "Remv" || f[0] == "Purg" })
}

// simulated returns the names of packages in the lines of an apt simulation that match.
func simulated(out []byte, match func(fields []string) bool) (names []string) {
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 2 && match(f) {
			names = append(names, f[1])
		}
	}
	return names
}

// env prevents questions of apt and needrestart, and sets the language in which their
// messages are matched.
func (p Package) env() []string {
	return append([]string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "LC_ALL=C.UTF-8"},
		p.Proxies.Env()...)
}

// waitForLists runs apt-get update. No option of apt waits for the lock on the lists, so
// waitForLists tries again while another program has it.
func (p Package) waitForLists(ctx context.Context, h host.Host, update host.Command) error {
	pause := p.pause
	pause = cmp.Or(pause, listsPause)
	for try := 1; ; try++ {
		_, err := h.Run(ctx, update)
		if !aptBusy(err) || try == listsAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// aptBusy reports whether a command failed because another program had one of apt's or
// dpkg's locks.
func aptBusy(err error) bool {
	var e *host.CommandError
	return errors.As(err, &e) && strings.Contains(e.Stderr, "Could not get lock")
}

// PackageState holds the state of a package in dpkg's database. The zero value is an unknown
// package.
type PackageState struct {
	Status  string // installed, half-configured, unpacked, half-installed, triggers-pending, config-files, ...
	Version string // "" if the package is not installed
	Reinst  bool   // dpkg requires a reinstallation first
}

// Installed reports whether the package is installed and works. Pending triggers are
// another package's work and do not affect it.
func (s PackageState) Installed() bool {
	switch s.Status {
	case "installed", "triggers-pending", "triggers-awaited":
		return !s.Reinst
	}
	return false
}

// Broken reports whether an installation was started and not finished.
func (s PackageState) Broken() bool {
	switch s.Status {
	case "half-installed", "unpacked", "half-configured":
		return true
	}
	return s.Reinst
}

// DpkgStatus is dpkg's database: stanzas separated by empty lines.
const DpkgStatus = "/var/lib/dpkg/status"

// ReadPackage reads the state of one package from dpkg's database. It runs no command,
// because every hook calls it. A machine without the database has no packages.
func ReadPackage(r host.Root, name string) (PackageState, error) {
	data, err := r.ReadFile(DpkgStatus)
	if errors.Is(err, fs.ErrNotExist) {
		return PackageState{}, nil
	}
	if err != nil {
		return PackageState{}, fmt.Errorf("cannot read the state of package %s: %w", name, err)
	}
	return findPackage(data, name), nil
}

// InstalledPackages returns the names of the machine's installed packages, sorted.
func InstalledPackages(r host.Root) (names []string, err error) {
	data, err := r.ReadFile(DpkgStatus)
	if err != nil {
		return nil, fmt.Errorf("cannot read the packages of the machine: %w", err)
	}
	for stanza := range bytes.SplitSeq(data, []byte("\n\n")) {
		line, _, _ := bytes.Cut(bytes.TrimLeft(stanza, "\n"), []byte("\n"))
		name, ok := bytes.CutPrefix(line, []byte("Package: "))
		if ok && parseStanza(stanza).Status != "" && parseStanza(stanza).Version != "" {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// findPackage searches all architectures of a package and prefers an installed one.
func findPackage(data []byte, name string) PackageState {
	var best PackageState
	head := []byte("Package: " + name + "\n")
	for at := 0; ; {
		i := bytes.Index(data[at:], head)
		if i < 0 {
			return best
		}
		start := at + i
		at = start + len(head)
		if start > 0 && data[start-1] != '\n' {
			continue
		}
		stanza := data[start:]
		if end := bytes.Index(stanza, []byte("\n\n")); end >= 0 {
			stanza = stanza[:end]
		}
		if s := parseStanza(stanza); best.Status == "" || s.Installed() || s.Broken() && !best.Installed() {
			best = s
		}
	}
}

// parseStanza reads "Status: <want> <flag> <status>" and the version.
func parseStanza(stanza []byte) PackageState {
	var s PackageState
	for line := range strings.Lines(string(stanza)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch key {
		case "Status":
			if f := strings.Fields(value); len(f) == 3 {
				s.Reinst, s.Status = f[1] == "reinstreq", f[2]
			}
		case "Version":
			s.Version = strings.TrimSpace(value)
		}
	}
	if s.Status == "not-installed" || s.Status == "config-files" {
		s.Version = ""
	}
	return s
}

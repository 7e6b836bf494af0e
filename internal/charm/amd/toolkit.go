// Package amd decides on AMD's software for GPUs: which packages a unit needs and can have,
// and their sources. It returns resources and never changes the machine itself. It finds no
// GPUs: package gpu does.
package amd

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// AMD's container toolkit and its repository.
const (
	ToolkitPackage = "amd-container-toolkit"
	BaseURL        = "https://repo.radeon.com"
	// KeyFingerprint identifies the key that signs AMD's repositories.
	KeyFingerprint = "CA8BB4727A47B4D09B4EE8969386B48A1A693C5C"

	keyURL     = "/rocm/rocm.gpg.key"
	keyRemedy  = "set rocm-base-url to AMD's repository or a faithful mirror of it, or amd-container-toolkit=skip"
	repoURL    = "/amd-container-toolkit/apt"
	keyPath    = "/etc/apt/keyrings/concourse-ci-amd.gpg"
	sourceName = "concourse-ci-amd-container-toolkit"

	// attemptPath records the last failed attempt.
	attemptPath  = wellknown.StateDir + "/toolkit-attempt.json"
	notInstalled = ToolkitPackage + " not installed"

	// driverDir is the folder that the package's preinst requires: it refuses to install
	// without amdgpu in the kernel.
	driverDir = "/sys/module/amdgpu/drivers"
)

// The Ubuntu series and architectures in AMD's repository. Packages are never installed on
// others. Ubuntu 26.04 has some since July 2026 (ROCm/container-toolkit#137).
var (
	toolkitSeries = []string{"jammy", "noble", "resolute"}
	toolkitArches = []string{"amd64"}
)

// ToolkitMode names a value of amd-container-toolkit.
type ToolkitMode string

// Values of ToolkitMode.
const (
	ToolkitAuto     ToolkitMode = "auto"     // install it if its repository is reachable
	ToolkitRequired ToolkitMode = "required" // install it or be blocked
	ToolkitSkip     ToolkitMode = "skip"
)

// Toolkit holds the options of AMD's container toolkit and the state of the unit.
type Toolkit struct {
	Mode    ToolkitMode
	Version string // x.y.z; "" is the newest in the repository, or the one that is installed
	BaseURL string // "" means BaseURL; no password
	Series  string // VERSION_CODENAME of os-release
	Arch    string // as dpkg and Go call it
	Proxies resource.Proxies
	Seen    ToolkitState
	Now     time.Time

	fingerprint string // "" means KeyFingerprint; tests lack AMD's key
}

// ToolkitFiles returns the files that the charm creates for the toolkit's repository.
func ToolkitFiles() []string {
	return []string{resource.AptSource{Name: sourceName}.Path(), keyPath}
}

// toolkitKept names the files that the package's prerm deletes and edits, even if others created
// them, when the package is removed or replaced (build/cleanup.sh of ROCm/container-toolkit
// 1.1.0 to 1.3.0).
var toolkitKept = resource.Preserved{Package: ToolkitPackage, Folder: "/etc/cdi", File: "/etc/docker/daemon.json"}

// ToolkitKept restores those files after a run that was killed while apt changed the
// package.
func ToolkitKept() resource.Preserved { return toolkitKept }

// UninstallToolkit removes the toolkit if the charm installed it.
func UninstallToolkit(why string) plan.Resource {
	return resource.RemoveOwned{Name: ToolkitPackage, Why: why, Preserve: &toolkitKept}
}

// ClearToolkitAttempt removes the record of a failed installation.
func ClearToolkitAttempt(why string) plan.Resource {
	return resource.Absent{Path: attemptPath, Why: why}
}

// ToolkitState holds the result of ObserveToolkit.
type ToolkitState struct {
	Package resource.PackageState
	Driver  bool              // the kernel has amdgpu
	Attempt *resource.Attempt // the last attempt, if it failed
}

// ReadAttempt returns the last failed attempt to install the toolkit, or nil.
func ReadAttempt(r host.Root) *resource.Attempt {
	return resource.ReadAttempt(r, attemptPath, notInstalled)
}

// ToolkitNote returns a status text for a failed attempt. It is "" without one, and if the
// repository was unreachable: with auto, tasks get their GPUs without the toolkit.
// check-status shows that attempt.
func ToolkitNote(last *resource.Attempt) string {
	if last == nil || last.Unreachable {
		return ""
	}
	return last.Text()
}

// ObserveToolkit reads the state of the machine.
func ObserveToolkit(r host.Root) (ToolkitState, error) {
	p, err := resource.ReadPackage(r, ToolkitPackage)
	if err != nil {
		return ToolkitState{}, err
	}
	return ToolkitState{Package: p, Driver: r.Exists(driverDir), Attempt: ReadAttempt(r)}, nil
}

// ToolkitDesired holds the resources for a Toolkit. At most one of Note and Blocked is set,
// each a text for the unit's status.
type ToolkitDesired struct {
	Resources []plan.Resource
	Note      string // the unit works without the toolkit
	Blocked   string // the operator must change this first
}

// Desire decides on the toolkit. After a failed attempt it returns the same result until the
// pause is over or an option changes.
func (t Toolkit) Desire() ToolkitDesired {
	forget := ToolkitDesired{Resources: []plan.Resource{
		resource.Absent{Path: attemptPath, Why: "nothing is left to retry"}}}
	if t.Mode == ToolkitSkip {
		return forget
	}
	if problem := t.malformed(); problem != "" {
		return ToolkitDesired{Blocked: problem}
	}
	if t.Mode == ToolkitAuto && t.Version == "" && !slices.Contains(toolkitSeries, t.Series) {
		return forget // tasks do not need the toolkit
	}
	if problem := t.impossible(); problem != "" {
		text := notInstalled + ": " + problem
		if t.Mode == ToolkitRequired {
			return ToolkitDesired{Blocked: text + ", or set amd-container-toolkit=auto"}
		}
		forget.Note = text
		return forget
	}
	last := t.Seen.Attempt
	if last != nil && last.Inputs != t.inputs() {
		last = nil
	}
	if t.Mode == ToolkitAuto && last != nil && last.Pausing(t.Now) {
		return ToolkitDesired{Note: ToolkitNote(last)}
	}
	source := resource.AptSource{Name: sourceName, URIs: []string{t.base() + repoURL + t.folder()},
		Suites: []string{t.Series}, Components: []string{"main"}, Architectures: []string{t.Arch}, SignedBy: keyPath}
	number := 1
	if last != nil {
		number = last.Attempt + 1
	}
	return ToolkitDesired{Resources: []plan.Resource{resource.Chain{
		Links: []plan.Resource{
			resource.AptKey{Path: keyPath, URL: t.base() + keyURL, Fingerprint: cmp.Or(t.fingerprint, KeyFingerprint),
				Proxies: t.Proxies, Remedy: keyRemedy},
			source,
			resource.OwnedPackage{Package: resource.Package{Name: ToolkitPackage, Version: t.Version, Source: &source,
				Proxies: t.Proxies, Preserve: &toolkitKept}},
		},
		Tolerate: t.Mode == ToolkitAuto, File: attemptPath, Done: ToolkitPackage + " is installed", Host: t.hostname(),
		Vendor: "AMD",
		Next:   resource.Attempt{Attempt: number, Inputs: t.inputs(), What: notInstalled},
	}}}
}

var versionForm = lazyregexp.New(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// malformed describes invalid values that would become part of a URL.
func (t Toolkit) malformed() string {
	if t.Version != "" && !versionForm().MatchString(t.Version) {
		return fmt.Sprintf("amd-container-toolkit: %q is not auto, required, skip or a version such as 1.3.0", t.Version)
	}
	u, err := url.Parse(t.base())
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(t.base(), " ?#") || u.Scheme != "http" &&
		u.Scheme != "https" {
		return "rocm-base-url: the value is not a URL like " + BaseURL + " (a password can't be part of it)"
	}
	return ""
}

// firstShared names the first version in the folder that newer ones share, as AMD's quick
// start has it. An older version has a folder of its own, without packages for Ubuntu 26.04.
const firstShared = "1.3.0"

func (t Toolkit) hasFolder() bool {
	old := []string{"1.0.", "1.1.", "1.2."}
	return slices.ContainsFunc(old, func(minor string) bool { return strings.HasPrefix(t.Version, minor) })
}

// folder returns the end of the repository's path.
func (t Toolkit) folder() string {
	if t.hasFolder() {
		return "/" + t.Version
	}
	return ""
}

// impossible describes why this machine cannot have the package.
func (t Toolkit) impossible() string {
	switch {
	case !slices.Contains(toolkitSeries, t.Series):
		series := t.Series
		series = cmp.Or(series, "an unknown series")
		return fmt.Sprintf("AMD has no packages for %s, only for %s; use one of these", series,
			strings.Join(toolkitSeries, ", "))
	case t.hasFolder() && t.Series == "resolute":
		return fmt.Sprintf("AMD has no %s for %s; set amd-container-toolkit=%s", t.Version, t.Series, firstShared)
	case !slices.Contains(toolkitArches, t.Arch):
		return fmt.Sprintf("AMD has no packages for %s, only for %s", t.Arch, strings.Join(toolkitArches, " and "))
	case !t.Seen.Driver && !t.Seen.Package.Installed():
		return "its package needs the kernel driver amdgpu; load it on the host (modprobe amdgpu)"
	}
	return ""
}

func (t Toolkit) base() string { return strings.TrimRight(cmp.Or(t.BaseURL, BaseURL), "/") }

func (t Toolkit) hostname() string {
	u, _ := url.Parse(t.base()) // malformed has checked it
	return u.Host
}

// inputs hashes all values of an operator. A change makes a failed attempt worth repeating
// at once.
func (t Toolkit) inputs() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q",
		[]string{string(t.Mode), t.Version, t.base(), t.Series, t.Arch,
			t.Proxies.HTTP, t.Proxies.HTTPS, t.Proxies.No})))
}

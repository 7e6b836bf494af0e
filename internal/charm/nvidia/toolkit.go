// Package nvidia installs NVIDIA's container toolkit, and describes the unit's GPUs for
// container tools with it. It only replaces or removes descriptions that the charm
// generated. It finds no GPUs, which package gpu does, and installs no driver.
package nvidia

import (
	"cmp"
	"crypto/sha256"
	"errors"
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
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// NVIDIA's container toolkit and its repository.
const (
	// Package is the part of the toolkit with nvidia-ctk and the hooks in its descriptions.
	// The other parts change the configuration of runtimes that this charm does not use
	// (packaging/debian/control of the toolkit).
	Package = "nvidia-container-toolkit-base"
	BaseURL = "https://nvidia.github.io/libnvidia-container"
	// KeyFingerprint identifies the key that signs NVIDIA's repository.
	KeyFingerprint = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"

	keyURL     = "/gpgkey"
	repoURL    = "/stable/deb/" // and the architecture; a flat repository
	keyPath    = "/etc/apt/keyrings/concourse-ci-nvidia.gpg"
	sourceName = "concourse-ci-nvidia-container-toolkit"
	// attemptPath records the last failed attempt.
	attemptPath = wellknown.StateDir + "/nvidia-attempt.json"

	undescribed = "NVIDIA GPUs not described"
)

// toolkitArches lists the architectures of both NVIDIA's repository and the charm.
var toolkitArches = []string{"amd64", "arm64"}

// Files returns the files that the charm creates for NVIDIA's repository.
func Files() []string { return []string{resource.AptSource{Name: sourceName}.Path(), keyPath} }

// Uninstall removes everything that the charm installed for NVIDIA's GPUs.
func Uninstall(why string) []plan.Resource {
	return append(resource.AllAbsent(why, append(Files(), attemptPath)...), unspecified{Why: why},
		resource.RemoveOwned{Name: Package, Why: why})
}

// Toolkit holds the options of NVIDIA's container toolkit and the state of the unit.
type Toolkit struct {
	Version   string // x.y.z; "" means the newest at the time of installation
	BaseURL   string // "" means BaseURL; no password
	Arch      string // as dpkg and Go call it
	Container string // name of this LXD container on its host, otherwise ""
	Proxies   resource.Proxies
	GPUs      []gpu.GPU // NVIDIA's GPUs of this unit
	Seen      ToolkitState
	Now       time.Time

	fingerprint string // "" means KeyFingerprint; tests lack NVIDIA's key
}

// ToolkitState holds the result of Observe.
type ToolkitState struct {
	Package   resource.PackageState
	Installed bool   // the charm installed the package
	Tool      bool   // nvidia-ctk is installed, by anyone
	Foreign   bool   // Path exists, and the charm did not generate it
	Described bool   // Path exists, and the charm generated it
	Driver    string // version of the kernel's driver, or ""
	Attempt   *resource.Attempt
}

// Observe reads the state of the machine.
func Observe(r host.Root) (s ToolkitState, err error) {
	if s.Package, err = resource.ReadPackage(r, Package); err != nil {
		return s, err
	}
	if s.Installed, err = resource.IsOwned(r, Package); err != nil {
		return s, err
	}
	for _, path := range []string{"/usr/bin/nvidia-ctk", "/usr/local/bin/nvidia-ctk"} {
		s.Tool = s.Tool || r.Exists(path)
	}
	from, err := readSpec(r)
	s.Described = from != ""
	s.Foreign = errors.Is(err, errForeign)
	if err != nil && !s.Foreign {
		return s, err
	}
	s.Driver, _ = r.ReadText("/sys/module/nvidia/version") // missing without a driver
	s.Attempt = ReadAttempt(r)
	return s, nil
}

// ReadAttempt returns the last failed attempt to describe the GPUs, or nil.
func ReadAttempt(r host.Root) *resource.Attempt {
	return resource.ReadAttempt(r, attemptPath, undescribed)
}

// Desired holds the resources for a Toolkit. Note is a text for the unit's status.
type Desired struct {
	Resources []plan.Resource
	Note      string
	// Describes means that Resources include the description, so that a run may create it.
	Describes bool
}

// Desire decides on the toolkit. A foreign description and a foreign toolkit stay.
func (t Toolkit) Desire() Desired {
	if t.Seen.Foreign {
		return Desired{Resources: []plan.Resource{resource.Absent{Path: attemptPath,
			Why: "nothing is left to retry"}}}
	}
	own := !t.Seen.Tool || t.Seen.Installed || t.Seen.Package.Broken()
	if problem := t.problem(); own && problem != "" {
		return Desired{Note: undescribed + ": " + problem}
	}
	last := t.Seen.Attempt
	if last != nil && last.Inputs != t.inputs() {
		last = nil
	}
	if last != nil && last.Pausing(t.Now) {
		return Desired{Note: last.Text()}
	}
	number := 1
	if last != nil {
		number = last.Attempt + 1
	}
	c := resource.Chain{Tolerate: true, File: attemptPath, Done: "NVIDIA's GPUs are described", Host: t.hostname(),
		Vendor: "NVIDIA",
		Next:   resource.Attempt{Attempt: number, Inputs: t.inputs(), What: undescribed}, Soon: isSpecError}
	if own {
		source := resource.AptSource{Name: sourceName, URIs: []string{t.base() + repoURL + t.Arch},
			Suites:        []string{"/"},
			Architectures: []string{t.Arch}, SignedBy: keyPath}
		key := resource.AptKey{Path: keyPath, URL: t.base() + keyURL,
			Fingerprint: cmp.Or(t.fingerprint, KeyFingerprint), Proxies: t.Proxies}
		c.Links = []plan.Resource{key, source,
			resource.OwnedPackage{Package: resource.Package{Name: Package, Version: t.Version, Source: &source,
				Proxies: t.Proxies}}}
	}
	c.Links = append(c.Links, specified{From: t.from(), Container: t.Container})
	return Desired{Resources: []plan.Resource{c}, Describes: true}
}

// Refresh returns only the description, generated again if the charm generated it before.
func (t Toolkit) Refresh() []plan.Resource {
	if t.Seen.Foreign || !t.Seen.Described {
		return nil
	}
	return []plan.Resource{specified{From: t.from(), Container: t.Container}}
}

var versionForm = lazyregexp.New(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// problem describes why the toolkit cannot be installed, or invalid values that would
// become part of a URL.
func (t Toolkit) problem() string {
	u, err := url.Parse(t.base())
	switch {
	case t.Version != "" && !versionForm().MatchString(t.Version):
		return fmt.Sprintf("nvidia-container-toolkit: %q is not auto or a version such as 1.17.8", t.Version)
	case err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(t.base(), " ?#") || u.Scheme != "http" &&
		u.Scheme != "https":
		return "the repository's address is not a URL like " + BaseURL
	case !slices.Contains(toolkitArches, t.Arch):
		return fmt.Sprintf("NVIDIA has no packages for %s, only for %s", t.Arch, strings.Join(toolkitArches, " and "))
	}
	return ""
}

func (t Toolkit) base() string { return strings.TrimRight(cmp.Or(t.BaseURL, BaseURL), "/") }

func (t Toolkit) hostname() string {
	u, err := url.Parse(t.base())
	if err != nil {
		return "the repository"
	}
	return u.Host
}

// from hashes the inputs of the description: the driver, because it names the driver's
// libraries by version, and the GPUs with their nodes.
func (t Toolkit) from() string {
	words := []string{t.Seen.Driver, t.Version}
	for _, g := range t.GPUs {
		words = append(words, g.PCI, g.Render.Path, g.Render.Number())
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", words)))
}

// inputs hashes all values of an operator. A change makes a failed attempt worth repeating
// at once.
func (t Toolkit) inputs() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", []string{t.from(), t.base(), t.Arch, t.Proxies.HTTP,
		t.Proxies.HTTPS, t.Proxies.No})))
}

// Package nvidia is what the charm knows of NVIDIA's container toolkit: where it
// comes from, and how it describes the unit's GPUs for container tools. Of the
// description only what the charm had made is ever replaced or removed. It finds
// no GPU, that is package gpu's, and installs no driver.
package nvidia

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/gpu"
)

// NVIDIA's container toolkit and where it comes from.
const (
	// Package is the part of the toolkit with nvidia-ctk and the hooks that its
	// descriptions name. The others are for runtimes that this charm has not,
	// and change their configuration (packaging/debian/control of the toolkit).
	Package = "nvidia-container-toolkit-base"
	BaseURL = "https://nvidia.github.io/libnvidia-container"
	// KeyFingerprint is the key that signs NVIDIA's repository.
	KeyFingerprint = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"

	keyURL     = "/gpgkey"
	repoURL    = "/stable/deb/" // and the architecture; a flat repository
	keyPath    = "/etc/apt/keyrings/concourse-ci-nvidia.gpg"
	sourceName = "concourse-ci-nvidia-container-toolkit"
	// attemptPath keeps the last try that failed.
	attemptPath = wellknown.StateDir + "/nvidia-attempt.json"

	undescribed = "NVIDIA GPUs not described"
)

// toolkitArches are the architectures that NVIDIA's repository has and the
// charm too.
var toolkitArches = []string{"amd64", "arm64"}

// Files are the files that the charm makes for NVIDIA's repository.
func Files() []string { return []string{resource.AptSource{Name: sourceName}.Path(), keyPath} }

// Leave is what takes away all that the charm brought for NVIDIA's GPUs.
func Leave(why string) []plan.Resource {
	return append(resource.AllAbsent(why, append(Files(), attemptPath)...), unspecified{Why: why},
		resource.TakeBack{Name: Package, Why: why})
}

// Toolkit is NVIDIA's container toolkit as it is wanted on this unit.
type Toolkit struct {
	Version   string // x.y.z; "" means the newest that there is when it is installed
	BaseURL   string // "" means BaseURL; no password
	Arch      string // as dpkg and Go call it
	Container string // name of this LXD container on its host, "" elsewhere
	Proxies   resource.Proxies
	GPUs      []gpu.GPU // NVIDIA's of this unit
	Seen      State
	Now       time.Time

	fingerprint string // "" means KeyFingerprint; tests have no key of NVIDIA's
}

// State is what Observe saw.
type State struct {
	Package   resource.PackageState
	Brought   bool   // the charm installed the package
	Tool      bool   // nvidia-ctk is there, whoever brought it
	Foreign   bool   // Path is there and not made by the charm
	Described bool   // Path is there and the charm's
	Driver    string // version of the kernel's driver, "" where there is none
	Attempt   *resource.Attempt
}

// Observe looks at the machine, reading only.
func Observe(r host.Root) (s State, err error) {
	if s.Package, err = resource.ReadPackage(r, Package); err != nil {
		return s, err
	}
	if s.Brought, err = resource.IsBrought(r, Package); err != nil {
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
	s.Driver, _ = r.ReadText("/sys/module/nvidia/version") // missing where there is no driver
	s.Attempt = ReadAttempt(r)
	return s, nil
}

// ReadAttempt returns the last attempt to have the GPUs described, nil where it
// did not fail.
func ReadAttempt(r host.Root) *resource.Attempt {
	return resource.ReadAttempt(r, attemptPath, undescribed)
}

// Want is what follows from a Toolkit. Note is a text for the unit's status.
type Want struct {
	Resources []plan.Resource
	Note      string
	// Describes says that Resources include the description, so that after a run
	// it can be there where it was not.
	Describes bool
}

// Want decides. Whoever has a description of their own keeps it, and whoever
// installed a toolkit keeps theirs.
func (t Toolkit) Want() Want {
	if t.Seen.Foreign {
		return Want{Resources: []plan.Resource{resource.Absent{Path: attemptPath,
			Why: "nothing is left to be tried again"}}}
	}
	own := !t.Seen.Tool || t.Seen.Brought || t.Seen.Package.Broken()
	if problem := t.problem(); own && problem != "" {
		return Want{Note: undescribed + ": " + problem}
	}
	last := t.Seen.Attempt
	if last != nil && last.Inputs != t.inputs() {
		last = nil
	}
	if last != nil && last.Pausing(t.Now) {
		return Want{Note: last.Text()}
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
			resource.Brought{Package: resource.Package{Name: Package, Version: t.Version, Source: &source,
				Proxies: t.Proxies}}}
	}
	c.Links = append(c.Links, specified{From: t.from(), Container: t.Container})
	return Want{Resources: []plan.Resource{c}, Describes: true}
}

// Refresh is the description alone, made anew where the charm had it made
// before.
func (t Toolkit) Refresh() []plan.Resource {
	if t.Seen.Foreign || !t.Seen.Described {
		return nil
	}
	return []plan.Resource{specified{From: t.from(), Container: t.Container}}
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// problem says what keeps the toolkit from being installed, or what is wrong
// with values that would end up in a URL.
func (t Toolkit) problem() string {
	u, err := url.Parse(t.base())
	switch {
	case t.Version != "" && !versionForm.MatchString(t.Version):
		return fmt.Sprintf("nvidia-container-toolkit-version: %q is not a version like 1.17.8", t.Version)
	case err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(t.base(), " ?#") || u.Scheme != "http" &&
		u.Scheme != "https":
		return "the repository's address is not a URL like " + BaseURL
	case !slices.Contains(toolkitArches, t.Arch):
		return fmt.Sprintf("NVIDIA has no packages for %s, only for %s", t.Arch, strings.Join(toolkitArches, " and "))
	}
	return ""
}

func (t Toolkit) base() string {
	if t.BaseURL == "" {
		return BaseURL
	}
	return strings.TrimRight(t.BaseURL, "/")
}

func (t Toolkit) hostname() string {
	u, err := url.Parse(t.base())
	if err != nil {
		return "the repository"
	}
	return u.Host
}

// from stands for what the description depends on: the driver, whose libraries
// it names by version, and the GPUs with their nodes.
func (t Toolkit) from() string {
	words := []string{t.Seen.Driver, t.Version}
	for _, g := range t.GPUs {
		words = append(words, g.PCI, g.Render.Path, g.Render.Number())
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", words)))
}

// inputs stands for everything that an operator can change to make a failed
// attempt worth repeating at once.
func (t Toolkit) inputs() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", []string{t.from(), t.base(), t.Arch, t.Proxies.HTTP,
		t.Proxies.HTTPS, t.Proxies.No})))
}

package page

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Links holds the addresses that the page links to. Empty addresses are not shown.
type Links struct {
	Dashboard string // of the GPUs, such as Grafana's
	Fleet     string // page of all workers, with a slash at its end
	// Build is the address of the build that has a container. It contains Handle. If it is
	// empty, the page of all workers finds the build.
	Build string
	// Explain is the beginning of the command that explains an error, up to its number. If it
	// is empty, the command is that of gpukit.
	Explain string
	Tasks   bool // the exporter has the page of failed tasks
	// Self is the address of the page itself, for the metric with which dashboards link to it.
	Self string
}

// Handle is the place of the container's handle in Links.Build.
const Handle = "{container}"

// Check returns an error for an address that is not one of a web page.
func (l Links) Check() error {
	for _, one := range []struct{ flag, address string }{
		{"--link.dashboard", l.Dashboard}, {"--link.fleet", l.Fleet}, {"--link.build", l.Build},
		{"--web.external-url", l.Self}} {
		u, err := url.Parse(one.address)
		if one.address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("invalid value %q for flag %s: want a URL that begins with http:// or https://",
				one.address, one.flag)
		}
	}
	if l.Fleet != "" && !strings.HasSuffix(l.Fleet, "/") {
		return fmt.Errorf("invalid value %q for flag --link.fleet: it lacks / at its end", l.Fleet)
	}
	if l.Build != "" && !strings.Contains(l.Build, Handle) {
		return fmt.Errorf("invalid value %q for flag --link.build: it lacks %s", l.Build, Handle)
	}
	return nil
}

const (
	docs           = wellknown.Repository + "/blob/main/docs/"
	quarantinePage = "how-to/quarantined-gpu.md"
	errorsPage     = "reference/gpu-errors.md"
)

// Docs returns the address of the documentation of the page.
func (Links) Docs() string { return docs + "explanation/gpu-health.md" }

// errorURL returns the runbook's section of a GPU error. GitHub makes its anchor of the
// heading "2 GPU Hang".
func errorURL(code int) string {
	return docs + errorsPage + "#" + anchor(fmt.Sprintf("%d %s", code, wellknown.GPUError(code)))
}

func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), " ", "-") }

// buildURL returns the address of a container's build, and "" without such a link or if the
// name is not a handle of Concourse.
func (l Links) buildURL(container string) string {
	if l.Build == "" && l.Fleet != "" {
		l.Build = l.Fleet + "builds/" + Handle
	}
	if l.Build == "" || !wellknown.IsHandle(container) {
		return ""
	}
	return strings.ReplaceAll(l.Build, Handle, url.PathEscape(container))
}

// releaseVersion matches the version of a published release.
var releaseVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// Release returns the address of the exporter's release, and "" for another build.
func (v view) Release() string {
	if !releaseVersion.MatchString(v.Version) {
		return ""
	}
	return wellknown.Repository + "/releases/tag/" + v.Version
}

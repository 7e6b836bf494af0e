package docs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestReleasesPageIsTheCharmsTable(t *testing.T) {
	const name = "docs/reference/rocm-releases.md"
	hosttest.Golden(t, filepath.Join(root, name), withSection(t, readFile(t, name), "releases", "\n"+releases()+"\n"))
}

// releases is the charm's table as Markdown.
func releases() string {
	var b strings.Builder
	b.WriteString("| ROCm | date | driver | kernel module | `amdgpu-dkms` | Ubuntu and kernels |\n|---|---|---|---|---|---|\n")
	for _, r := range amd.Releases() {
		versions, kernels := []string{"`1:" + r.DKMSVersion + "." + r.Build + ".*`"}, []string{"recognised, not installed"}
		if r.Unknown == "" {
			versions, kernels = nil, nil
		}
		for _, s := range r.Series {
			versions = append(versions, "`"+r.Package(s)+"`")
			kernels = append(kernels, s+" "+strings.Join(r.KernelsOn(s), ", "))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.ROCm, r.Date, r.Driver, r.ModuleVersion(),
			strings.Join(versions, "<br>"), strings.Join(kernels, "<br>"))
	}
	return b.String()
}

// The page for people names every state that a driver can be in, and the
// version it installs.
func TestROCmPageHasEveryState(t *testing.T) {
	page := readFile(t, "docs/how-to/rocm.md")
	var want []string
	for _, s := range []amd.DriverState{amd.StateNone, amd.StateSupported, amd.StateUnsupported, amd.StateMixed, amd.StateContainer, amd.StateReboot} {
		want = append(want, string(s))
	}
	require.ElementsMatch(t, want, terms(page))
	r, err := amd.FindRelease("", "", "")
	require.NoError(t, err)
	for _, text := range []string{r.ROCm, r.DriverRepo()[1:], r.ROCmRepo()[1:]} {
		require.True(t, strings.Contains(page, text), text)
	}
}

// A key that changes without the page is a key that nothing compares.
func TestSecurityPageHasTheKeysOfTheRepositories(t *testing.T) {
	page := readFile(t, "docs/explanation/security.md")
	for _, key := range []string{amd.KeyFingerprint, nvidia.KeyFingerprint} {
		require.Contains(t, page, "`"+key+"`")
	}
}

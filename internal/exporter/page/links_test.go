package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// A runbook link leads to a page and a heading of docs/.
func TestRunbookLinksExist(t *testing.T) {
	read := func(page string) string {
		data, err := os.ReadFile(filepath.Join("../../../docs", page))
		require.NoError(t, err)
		return string(data)
	}
	anchors := map[string]bool{}
	for line := range strings.Lines(read(errorsPage)) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			anchors[anchor(heading)] = true
		}
	}
	for _, e := range health.Explain([]int{1, 2, 3, 4, 6, 7, 8}) {
		page, at, _ := strings.Cut(errorURL(e.Code), "#")
		require.Equal(t, docs+errorsPage, page)
		require.True(t, anchors[at], at)
	}
	read(quarantinePage)
	read(strings.TrimPrefix(Links{}.Docs(), docs))
}

func TestBuildLinksAreOfConcoursesContainers(t *testing.T) {
	const task = "eb2a4fe8-e932-49c4-b519-4f1da1901416"
	l := Links{Build: "https://ci.example.com/find?handle={container}"}
	require.Equal(t, "https://ci.example.com/find?handle="+task, l.buildURL(task))
	require.Empty(t, l.buildURL("no container"))
	require.Empty(t, Links{}.buildURL(task))
	l.Fleet = "http://10.0.0.10:9358/"
	require.Equal(t, "https://ci.example.com/find?handle="+task, l.buildURL(task))
	require.Equal(t, "http://10.0.0.10:9358/builds/"+task, Links{Fleet: l.Fleet}.buildURL(task))
}

func TestOnlyReleasesLinkToTheirNotes(t *testing.T) {
	require.Equal(t, wellknown.Repository+"/releases/tag/v1.2.3", view{Version: "v1.2.3"}.Release())
	require.Empty(t, view{Version: "v1.2.3-4-gabcdef"}.Release())
	require.Empty(t, view{Version: "dev"}.Release())
}

func TestLinksAreAddressesOfWebPages(t *testing.T) {
	for _, good := range []Links{
		{}, {Dashboard: "http://10.0.0.5:3000/d/amd-gpu", Fleet: "http://10.0.0.10:9358/", Build: "https://ci.example.com/c/{container}"},
	} {
		require.NoError(t, good.Check())
	}
	const noURL = `invalid value %q for flag --link.dashboard: want a URL that begins with http:// or https://`
	for want, bad := range map[string]Links{
		fmt.Sprintf(noURL, "javascript:alert(1)"):                                                            {Dashboard: "javascript:alert(1)"},
		`invalid value ":9401" for flag --web.external-url: want a URL that begins with http:// or https://`: {Self: ":9401"},
		fmt.Sprintf(noURL, "grafana"):                                                                        {Dashboard: "grafana"},
		`invalid value "http://10.0.0.10:9358" for flag --link.fleet: it lacks / at its end`:                 {Fleet: "http://10.0.0.10:9358"},
		`invalid value "https://ci.example.com" for flag --link.build: it lacks {container}`: {
			Build: "https://ci.example.com"},
	} {
		require.EqualError(t, bad.Check(), want)
	}
}

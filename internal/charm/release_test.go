package charm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/roletest"
)

// D14: nobody gets another version than the tested one limitUnknown. D15: and never
// a new major version, or an older one.
func TestD14D15WhichVersionIsWanted(t *testing.T) {
	for name, tt := range map[string]struct {
		set    map[string]any
		web    string // the version that the web tells
		newest string
		want   string
		remark string
	}{
		"nothing said":            {nil, "", "8.9.0", release.TestedVersion, ""},
		"auto-upgrade":            {map[string]any{"auto-upgrade": true}, "", "8.9.0", "8.9.0", ""},
		"an older one":            {map[string]any{"auto-upgrade": true}, "", "8.0.1", release.TestedVersion, ""},
		"a new major version":     {map[string]any{"auto-upgrade": true}, "", "9.0.0", release.TestedVersion, "Concourse 9.0.0 is there, a new major version: to take it set version=9.0.0"},
		"the web's":               {map[string]any{"auto-upgrade": true}, "8.1.0", "8.9.0", "8.1.0", ""},
		"the operator's":          {map[string]any{"version": "8.3.0"}, "8.1.0", "8.9.0", "8.3.0", ""},
		"the operator's and auto": {map[string]any{"version": "8.3.0", "auto-upgrade": true}, "", "8.9.0", "8.3.0", ""},
		"by plain http": {map[string]any{"release-mirror": "http://mirror.example"}, "", "8.9.0", release.TestedVersion, "release-mirror is plain http, and the checksum of Concourse " +
			release.TestedVersion + " comes from there, too: anybody on the way can change both; set release-sha256, or use https"},
		"by http and a sum": {map[string]any{"release-mirror": "http://mirror.example", "release-sha256": strings.Repeat("a", 64)}, "", "8.9.0", release.TestedVersion, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			hosttest.Put(t, r, release.NewestFile, `{"asked":"2026-01-01T00:00:00Z","version":"`+tt.newest+`"}`)
			c := &Charm{Host: host.Host{Root: r, Clock: hosttest.Clock{T: hosttest.Now}}} // no tools: GitHub is not asked
			o := role.Observed{Config: roletest.Config(t, tt.set), Facts: model.Facts{Unit: "w/0"}}
			require.NoError(t, c.observeRelease(t.Context(), &o, tt.web))
			require.Equal(t, tt.want, o.Release.Version)
			if tt.remark == "" {
				require.Empty(t, o.Remarks)
				return
			}
			require.Equal(t, []string{tt.remark}, o.Remarks)
		})
	}
}

package charm

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// D14: without a version the tested one is installed. D15: auto-upgrade never installs a new
// major version or an older version.
func TestD14D15VersionIsChosen(t *testing.T) {
	for name, tt := range map[string]struct {
		set    map[string]any
		web    string // the version that the web reports
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
		"by plain http":           {map[string]any{"release-mirror": "http://mirror.example"}, "", "8.9.0", release.TestedVersion, "release-mirror is plain http: set release-sha256, or use https: the checksum of Concourse " + release.TestedVersion + " comes from there, too: anybody on the way can change both"},
		"by http and a sum":       {map[string]any{"release-mirror": "http://mirror.example", "release-sha256": strings.Repeat("a", 64)}, "", "8.9.0", release.TestedVersion, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			hosttest.Put(t, r, release.NewestFile, `{"queried_at":"2026-01-01T00:00:00Z","version":"`+tt.newest+`"}`)
			c := &Charm{Host: host.Host{Root: r, Clock: hosttest.Clock{T: hosttest.Now}}} // no tools: GitHub is not asked
			o := role.Observed{Config: roletest.Config(t, tt.set), Facts: model.Facts{Unit: "w/0"}}
			require.NoError(t, c.observeRelease(t.Context(), &o, tt.web))
			require.Equal(t, tt.want, o.Release.Version)
			if tt.remark == "" {
				require.Empty(t, o.Remarks)
				return
			}
			require.Len(t, o.Remarks, 1)
			require.Equal(t, tt.remark, o.Remarks[0].String())
		})
	}
}

// upgradedTo is a machine that went from 8.2.5 to 8.3.0.
func upgradedTo(t *testing.T, run host.Runner) (h host.Host, r release.Release) {
	t.Helper()
	h = host.Host{Root: hosttest.Root(t), Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}
	for _, version := range []string{"8.2.5", "8.3.0"} {
		file := filepath.Join(t.TempDir(), version+".tgz")
		require.NoError(t, sandbox.StandInRelease(file, version))
		r = release.Release{Version: version, Resource: file, Arch: "amd64"}
		p, err := plan.Diff(t.Context(), h, append(release.Folders(false), release.Install{Release: r})...)
		require.NoError(t, err)
		_, err = p.Apply(t.Context(), nil)
		require.NoError(t, err)
	}
	version, _, ok := release.Installed(h.Root)
	require.True(t, ok)
	require.Equal(t, "8.3.0", version)
	return h, r
}

// A release that ends at its start is given up for the one before, unless it is
// a web's that has changed the database already.
func TestUpgradeIsRevertedOnlyIfTheDatabaseFits(t *testing.T) {
	aWorker, aWeb := Desired{Worker: worker.Worker{Up: true}}, Desired{Web: web.Web{Up: true}}
	for name, tt := range map[string]struct {
		want   Desired
		state  string
		schema string
		back   bool
	}{
		"worker ends":                {aWorker, "activating\nSubState=auto-restart", "", true},
		"worker failed":              {aWorker, "failed\nSubState=failed", "", true},
		"worker that starts slowly":  {aWorker, "active\nSubState=running", "", false},
		"web ends":                   {aWeb, "activating\nSubState=auto-restart", "825", true},
		"web that migrated ends":     {aWeb, "activating\nSubState=auto-restart", "830", false},
		"nothing is to be running":   {Desired{}, "inactive\nSubState=dead", "", false},
		"web without a schema, ends": {aWeb, "failed\nSubState=failed", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			run := hosttest.NewMachine(t)
			run.On("systemctl show", func(c host.Command) (string, error) {
				return "Id=" + c.Argv[len(c.Argv)-1] + "\nLoadState=loaded\nActiveState=" + tt.state + "\nUnitFileState=enabled\n\n", nil
			})
			h, r := upgradedTo(t, run)
			if tt.schema != "" {
				hosttest.Put(t, h.Root, sandbox.Schema, tt.schema+"\n")
			}
			m := jujutest.New("ci/0")
			c := charmOf(t, h.Root, m, m.Begin(jujutest.Hook("upgrade-charm")), run)
			tt.want.Release, tt.want.Web.LocalURL = r, "http://127.0.0.1:9" // no one answers
			hosttest.Put(t, h.Root, concourse.OperatorEnvFile, "CONCOURSE_HEALTHCHECK_BIND_PORT=9\n")
			back, err := c.watchUpgrade(t.Context(), tt.want)
			require.NoError(t, err)
			require.Equal(t, tt.back, back)
			r, err = release.Observe(h.Root, r)
			require.NoError(t, err)
			failed, is := r.Avoided(h.Root)
			require.Equal(t, tt.back, is)
			if tt.back {
				require.Equal(t, "8.3.0", failed.Version)
				require.Contains(t, m.Status().Message, "Going back to Concourse 8.2.5: 8.3.0 ended when it was started")
			}
		})
	}
}

// The remedy is a valid parameter of the action.
func TestD15RemedyOfADowngradeNamesASchema(t *testing.T) {
	e := &release.DowngradeError{From: "8.3.0", To: "8.2.5", Schema: 1700000000}
	require.ErrorContains(t, e, "cannot go from Concourse 8.3.0 back to 8.2.5")
	require.Contains(t, e.Remedy(wellknown.Commands{}).String(), "run-migrations target-version=1700000000")
	require.Contains(t, e.Remedy(wellknown.Commands{}).String(), "version=8.3.0")
}

//go:build e2e

package pebble

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// jobsLayer returns the layer of a web that exports metrics of jobs.
func jobsLayer(t *testing.T) (layer resource.File) {
	t.Helper()
	raw := map[string]any{"mode": "all", "enable-metrics": true}
	cfg, problems := config.Parse(raw, nil)
	require.Empty(t, problems)
	d := web.Desire(web.Observed{Observed: role.Observed{Event: "config-changed", Config: cfg, Arch: "amd64", CharmDir: hosttest.CharmDir(t),
		Now: hosttest.Now, Release: release.Release{Version: "8.2.5", Arch: "amd64"}, ReleaseID: "8.2.5", Programs: []byte("1"), Half: model.WebRole,
		Units: map[string]resource.UnitState{}, Facts: model.Facts{Unit: "ci/0", Config: raw, Leader: true, Role: model.WebRole,
			Web: &model.Web{Address: "10.0.0.2", Secret: roletest.WebSecrets().Content(), Workers: map[string]model.Worker{},
				Database: &model.Relation{ID: "postgresql:4", App: "postgresql", Remote: map[string]string{"database": "concourse",
					"endpoints": "10.0.0.9:5432", "secret-user": "secret:a"}, Secrets: map[string]map[string]string{"secret:a": {"username": "u", "password": "p"}}}}}}}, nil)
	for _, r := range d.Resources {
		if f, is := r.(resource.File); is && f.Path == role.JobsLayer {
			layer = f
		}
	}
	require.NotEmpty(t, layer.Path)
	return layer
}

// With mode=all and enable-metrics one Pebble has the layers of both roles.
func TestPebbleRunsTheExportersOfBothRoles(t *testing.T) {
	t.Parallel()
	u := newUnit(t)
	program, err := os.ReadFile(filepath.Join(built, role.JobsService))
	require.NoError(t, err)
	require.NoError(t, u.WriteFile(role.JobsBin, program, 0o755))
	require.NoError(t, u.WriteFile("/credentials.json", []byte(`{"url":"http://127.0.0.1:9","username":"a","password":"b"}`), 0o644))
	require.NoError(t, u.MkdirAll("/state", 0o777))
	require.NoError(t, os.Chmod(u.Path("/state"), 0o777))
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	layer := jobsLayer(t)
	layer.Data = []byte(replace(t, string(layer.Data), role.JobsBin, u.Path(role.JobsBin)+" --web.listen-address="+address,
		role.JobsCredentials, u.Path("/credentials.json"), role.JobsFolder, u.Path("/state"), "127.0.0.1:9358", "127.0.0.1:"+port,
		"user: "+concourse.WebUser, "user: nobody", "group: "+concourse.WebUser, "group: nogroup",
		" --fleet.file="+role.FleetFile, ""))
	p, err := layer.Diff(context.Background(), host.Host{Root: u.Root, Runner: hosttest.NewRunner(t)})
	require.NoError(t, err)
	_, err = p.Apply(context.Background(), nil)
	require.NoError(t, err)

	d := u.start(t)
	d.serving()
	eventually(t, func() bool {
		resp, err := http.Get("http://" + address + "/-/healthy")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, "the exporter of jobs does not answer")
	for _, name := range []string{service, role.JobsService} {
		require.Regexp(t, `(?m)^`+name+`\s+enabled\s+active`, d.ask("services"))
	}
}

//go:build e2e

package pebble

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	service  = role.ExporterService
	unitPath = "/etc/systemd/system/" + role.PebbleUnit
	program  = role.BinDir + "/" + service

	layerPath  = role.ExporterLayer
	helperFlag = "write-gpus"
)

// unit is a machine's folder with what the charm writes for Pebble. Another
// one has the GPUs, as the exporter's --path.root.
type unit struct {
	host.Root
	gpus    host.Root
	address string // the exporter's
	layer   string // as it is on the disk
}

// written is what the charm decides for a worker with GPUs: Pebble's folder
// and those above it, its layer and its unit.
func written(t *testing.T, gpus host.Root, runtime string) (folders []resource.Dir, layer, unit resource.File) {
	t.Helper()
	cfg, problems := config.Parse(map[string]any{"mode": "worker", "compute-runtime": runtime}, nil)
	require.Empty(t, problems)
	inv, err := gpu.Discover(gpus)
	require.NoError(t, err)
	toolkit, err := amd.ObserveToolkit(gpus)
	require.NoError(t, err)
	d := worker.Desire(worker.Observed{GPUs: inv, Toolkit: toolkit, Observed: role.Observed{Event: "config-changed", Config: cfg, Arch: "amd64", Now: hosttest.Now,
		Release: release.Release{Version: "8.2.5", Arch: "amd64"}, ReleaseID: "8.2.5", WorkerID: "0badcafe", CharmDir: "/charm",
		Facts: model.Facts{Unit: "worker/0", Role: model.WorkerRole}, Units: map[string]resource.UnitState{}, Programs: []byte("1")}}, nil)
	for _, r := range d.Resources {
		switch r := r.(type) {
		case resource.Dir:
			if strings.HasPrefix(role.PebbleDir+"/", r.Path+"/") {
				folders = append(folders, r)
			}
		case resource.File:
			switch r.Path {
			case layerPath:
				layer = r
			case unitPath:
				unit = r
			}
		}
	}
	require.Len(t, folders, 2, "the charm's own folder and Pebble's")
	require.NotEmpty(t, layer.Path)
	require.NotEmpty(t, unit.Path)
	return folders, layer, unit
}

// newUnit makes the folder. Nothing in the charm's files is changed but paths
// and the port, and what edit changes: pairs of old and new text of the layer.
func newUnit(t *testing.T, edit ...string) *unit { return newUnitOf(t, "amd", "rocm", edit...) }

// newUnitOf is newUnit on another fixture host.
func newUnitOf(t *testing.T, hostName, runtime string, edit ...string) *unit {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("", "pb") // a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	open(t, dir)
	u := &unit{Root: host.Root(dir), gpus: hosttest.Host(t, hostName), address: freeAddress(t)}
	open(t, string(u.gpus))
	require.NoError(t, u.MkdirAll(role.BinDir, 0o755))
	for _, name := range []string{"pebble", service} {
		data, err := os.ReadFile(filepath.Join(built, name))
		require.NoError(t, err)
		require.NoError(t, u.WriteFile(role.BinDir+"/"+name, data, 0o755))
	}
	folders, layer, unit := written(t, u.gpus, runtime)
	_, port, err := net.SplitHostPort(u.address)
	require.NoError(t, err)
	u.layer = replace(t, string(layer.Data), append([]string{program, u.Path(program), "=:9401", "=" + u.address,
		"127.0.0.1:9401", "127.0.0.1:" + port, "--path.root=/", "--path.root=" + string(u.gpus)}, edit...)...)
	layer.Data = []byte(u.layer)
	unit.Data = []byte(replace(t, string(unit.Data), "PEBBLE="+role.PebbleDir, "PEBBLE="+u.Path(role.PebbleDir),
		role.BinDir+"/pebble", u.Path(role.BinDir+"/pebble")))
	h := host.Host{Root: u.Root, Runner: hosttest.NewRunner(t)}
	for _, d := range folders {
		p, err := d.Diff(context.Background(), h)
		require.NoError(t, err)
		_, err = p.Apply(context.Background(), nil)
		require.NoError(t, err)
	}
	for _, f := range []resource.File{layer, unit} {
		p, err := f.Diff(context.Background(), h)
		require.NoError(t, err)
		_, err = p.Apply(context.Background(), nil)
		require.NoError(t, err)
	}
	return u
}

// replace changes a text that must have what must be changed.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, text, pairs[i])
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// soon is a check that fails within two seconds, for tests that need many. In
// the first second of a service Pebble would take no notice.
func soon() []string {
	return []string{"period: 10s", "period: 500ms", "timeout: 3s", "timeout: 400ms"}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// open lets other users reach one of this test's own folders.
func open(t *testing.T, p string) {
	t.Helper()
	for dir := p; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
}

// get asks the exporter; code is 0 if it does not answer.
func (u *unit) get(path string) (code int, body string) {
	c := http.Client{Timeout: stuck, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + u.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

package charm

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/cdi"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/juju/jujutest"
	"concourse-ci-machine/internal/machine"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/rocm"
)

// tsaKey is a made-up public key.
const tsaKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"

func configOf(t *testing.T, set map[string]any) config.Config {
	t.Helper()
	raw := map[string]any{"mode": "worker"}
	for k, v := range set {
		raw[k] = v
	}
	c, problems := config.Parse(raw, nil)
	require.Empty(t, problems)
	return c
}

// webUnit is what a complete web publishes.
func webUnit() map[string]string {
	return map[string]string{"tsa-host": "10.0.0.2:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"}
}

func workerMode() map[string]any { return map[string]any{"mode": "worker"} }

func related(units map[string]map[string]string) []model.Relation {
	return []model.Relation{{ID: "flight:7", Own: map[string]string{}, Units: units}}
}

// observed is a worker on a fixture host, related to a web.
func observed(t *testing.T, r host.Root, set map[string]any) WorkerObserved {
	t.Helper()
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	toolkit, err := rocm.ObserveToolkit(r)
	require.NoError(t, err)
	o := WorkerObserved{GPUs: inv, Toolkit: toolkit, UnitObserved: UnitObserved{Event: "config-changed", Config: configOf(t, set), Machine: machine.Observe(r),
		Arch: "amd64", CharmDir: hosttest.CharmDir(t), Now: hosttest.Now, Release: &concourse.Release{Version: "8.2.5", Arch: "amd64"},
		ReleaseID: "8.2.5", WorkerID: "0badcafe", Units: map[string]resource.UnitState{}, Programs: []byte("1")}}
	o.Facts = model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole, Config: workerMode(), Flights: related(map[string]map[string]string{"web/0": webUnit()})}
	o.TSA, o.TSAProblems = model.ChooseTSA(o.Facts)
	return o
}

// running marks the units as up.
func running(o WorkerObserved) WorkerObserved {
	up := resource.UnitState{Load: "loaded", Active: "active", Sub: "running", File: "enabled"}
	o.Units = map[string]resource.UnitState{concourse.Unit: up, PebbleUnit: up}
	return o
}

// file is a desired file's content; ok is false where it is not wanted.
func file(d Desired, path string) (data string, ok bool) {
	for _, r := range d.Resources {
		if f, is := r.(resource.File); is && f.Path == path {
			return string(f.Data), true
		}
	}
	return "", false
}

// mode is a desired file's mode.
func mode(d Desired, path string) os.FileMode {
	for _, r := range d.Resources {
		if f, is := r.(resource.File); is && f.Path == path {
			return f.Mode
		}
	}
	return 0
}

func absent(d Desired, path string) bool {
	for _, r := range d.Resources {
		if a, is := r.(resource.Absent); is && a.Path == path {
			return true
		}
		if _, is := r.(cdi.Gone); is && path == cdi.Path {
			return true
		}
		if _, is := r.(stateGone); is && path == model.StateDir {
			return true
		}
	}
	return false
}

func trigger(t *testing.T, d Desired, name string) resource.Trigger {
	t.Helper()
	for _, r := range d.Resources {
		if tr, is := r.(resource.Trigger); is && tr.Name == name {
			return tr
		}
	}
	require.Fail(t, "no trigger "+name)
	return resource.Trigger{}
}

// env is the worker's environment as it is desired.
func env(t *testing.T, d Desired) map[string]string {
	t.Helper()
	data, ok := file(d, concourse.EnvFile)
	require.True(t, ok)
	vars := map[string]string{}
	for line := range strings.Lines(data) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[k] = v
	}
	return vars
}

// charmOf is one run of the charm in this process.
func charmOf(t *testing.T, r host.Root, m *jujutest.Model, ctx *jujutest.Context, next host.Runner) *Charm {
	t.Helper()
	run := ctx.Runner(next)
	return &Charm{Host: host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, Tools: juju.New(run), Event: ctx.Event,
		CharmDir: m.CharmDir, Sleep: func(time.Duration) {}, NewID: func() string { return "0badcafe" }, Stderr: io.Discard}
}

// decodeWrapper reads what was marshalled; that the wrapper reads it is shown
// where the wrapper is tested.
func decodeWrapper(data string) (c oci.Config, err error) {
	d := json.NewDecoder(strings.NewReader(data))
	d.DisallowUnknownFields()
	return c, d.Decode(&c)
}

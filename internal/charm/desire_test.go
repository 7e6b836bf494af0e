package charm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/cdi"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/status"
)

// D4: the predecessor was active without any web to register at.
func TestD4WithoutAWebTheWorkerIsNotStartedAndSaysWhatIsMissing(t *testing.T) {
	two := append(related(map[string]map[string]string{"web/0": webUnit()}), model.Relation{ID: "flight:9", Units: map[string]map[string]string{"other/0": webUnit()}})
	half := map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222"}}
	wrong := map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2", "tsa-public-key": tsaKey}}
	for name, tt := range map[string]struct {
		flights []model.Relation
		want    string
	}{
		"no relation":     {nil, "waiting: Waiting for a web: run juju integrate concourse-ci-machine:flight <web application>:tsa"},
		"no units":        {related(nil), "waiting: Waiting for TSA connection info..."},
		"no key yet":      {related(half), "waiting: Waiting for TSA connection info..."},
		"a useless value": {related(wrong), `waiting: Waiting for TSA connection info...; flight: web/0 tsa-host: "10.0.0.2" is not host:port`},
		"two webs":        {two, "blocked: flight: related to 2 webs and a worker serves one; remove one with juju remove-relation"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(t, hosttest.Host(t, "amd"), nil)
			o.Facts.Flights = tt.flights
			o.TSA, o.TSAProblems = model.ChooseTSA(model.Facts{Config: workerMode(), Flights: tt.flights})
			d := DesireWorker(o)
			require.Equal(t, tt.want, status.Of("Ready", d.Causes).String())
			require.False(t, d.Worker)
			for _, r := range d.Resources {
				if s, ok := r.(resource.Service); ok {
					require.False(t, s.Up, s.Unit)
				}
			}
			d = DesireWorker(running(o))
			_, written := file(d, concourse.EnvFile)
			require.False(t, written, "a worker that is left running keeps what it was started with")
		})
	}
	o := observed(t, hosttest.Host(t, "amd"), nil)
	require.True(t, DesireWorker(o).Worker)
}

// D16, D17: what does not concern the worker restarts nothing.
func TestD16D17OnlyWhatTheWorkerUsesRestartsIt(t *testing.T) {
	base := func() WorkerObserved {
		return running(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"}))
	}
	for name, tt := range map[string]struct {
		change   func(*WorkerObserved)
		restarts bool
	}{
		"nothing":           {func(*WorkerObserved) {}, false},
		"another hook":      {func(o *WorkerObserved) { o.Event = "flight-relation-changed" }, false},
		"a second web unit": {func(o *WorkerObserved) { o.Facts.Flights[0].Units["web/1"] = webUnit() }, false},
		"its own key came back": {func(o *WorkerObserved) {
			o.Facts.Flights[0].Units["web/0"]["worker-key-authorized-at"] = "now"
			o.Facts.Flights[0].Own["worker-public-key"] = "ssh-rsa A"
		}, false},
		"time passed":         {func(o *WorkerObserved) { o.Now = o.Now.Add(time.Hour) }, false},
		"drain timeout":       {func(o *WorkerObserved) { o.Config.DrainTimeout = time.Hour }, false},
		"the exporter is new": {func(o *WorkerObserved) { o.Programs = []byte("2") }, false},
		"a tag":               {func(o *WorkerObserved) { o.Config.Tags = []string{"big"} }, true},
		"another TSA":         {func(o *WorkerObserved) { o.Facts.Flights[0].Units["web/0"]["tsa-host"] = "10.0.0.9:2222" }, true},
		"another release":     {func(o *WorkerObserved) { o.ReleaseID = "8.3.0" }, true},
		"no GPUs":             {func(o *WorkerObserved) { o.Config.ComputeRuntime = "none" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := trigger(t, DesireWorker(base()), restartWorker)
			o := base()
			tt.change(&o)
			o.TSA, o.TSAProblems = model.ChooseTSA(o.Facts)
			after := trigger(t, DesireWorker(o), restartWorker)
			require.False(t, after.Adopt, "a running worker was not just started")
			if tt.restarts {
				require.NotEqual(t, before.Inputs, after.Inputs)
			} else {
				require.Equal(t, before.Inputs, after.Inputs)
			}
		})
	}
}

// A unit that systemd is about to start again has not seen what was written now.
func TestOnlyAUnitThatThisRunStartsNeedsNoRestart(t *testing.T) {
	for active, want := range map[string]bool{"inactive": true, "failed": true, "": true, "active": false, "activating": false} {
		require.Equal(t, want, starts(resource.UnitState{Active: active}), active)
	}
}

// D18: the predecessor never drained.
func TestD18StopAndRemoveDrainFirst(t *testing.T) {
	for _, event := range []string{"stop", "remove"} {
		o := running(observed(t, hosttest.Host(t, "amd"), map[string]any{"worker-drain-timeout": "30s"}))
		o.Event = event
		d := desireNothing(o.UnitObserved)
		require.True(t, d.Remove)
		drain, ok := d.Resources[1].(concourse.Drain) // after what a killed run left
		require.True(t, ok, "%T", d.Resources[1])
		require.Equal(t, 30*time.Second, drain.Limit)
		require.Equal(t, event == "remove", absent(d, concourse.ConfigDir), "keys go when the unit does")
		require.Equal(t, event == "remove", absent(d, model.StateDir))
		require.False(t, absent(d, concourse.WorkDir))
	}
	o := running(observed(t, hosttest.Host(t, "amd"), nil))
	o.Event, o.Facts.Flights = "flight-relation-broken", nil
	o.TSA, o.TSAProblems = model.ChooseTSA(model.Facts{Config: workerMode()})
	d := DesireWorker(o)
	_, rewritten := file(d, concourse.EnvFile)
	require.True(t, rewritten, "the next hook has nothing left to do")
}

// D23: the predecessor set up GPUs on units that have none to set up.
func TestD23NoRuntimeTouchesNoGPUPart(t *testing.T) {
	o := observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "none", "amd-container-toolkit": "required", "srv-folders": "none"})
	d := DesireWorker(o)
	require.False(t, d.Toolkit)
	require.False(t, d.Exporter)
	require.Empty(t, d.Causes)
	h := hosttest.Quiet(t, hosttest.Host(t, "amd"))
	p, err := plan.Diff(t.Context(), h, d.Resources...)
	require.NoError(t, err)
	for _, s := range p {
		for _, part := range []string{"amd-container", "/etc/apt", "/etc/cdi", "wrapper.json", "runtime/containerd", "pebble.service"} {
			require.NotContains(t, s.Op, part)
		}
	}
	require.NotContains(t, env(t, d), "CONCOURSE_CONTAINERD_BIN")
	require.NotContains(t, env(t, d), "CONCOURSE_TAG")
}

// D26: cleared options left the predecessor's variables behind. D49: so did
// the GPU wrapper.
func TestD26D49WhatWasClearedIsGone(t *testing.T) {
	r := hosttest.Host(t, "amd")
	o := running(observed(t, r, map[string]any{"compute-runtime": "rocm", "tag": "big", "https-proxy": "http://proxy:3128"}))
	d := DesireWorker(o)
	with := env(t, d)
	require.Equal(t, "big,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1100", with["CONCOURSE_TAG"], "D43")
	require.Equal(t, concourse.Launcher, with["CONCOURSE_CONTAINERD_BIN"])
	require.Equal(t, "http://proxy:3128", with["https_proxy"])
	require.True(t, d.Exporter)

	data, _ := file(d, concourse.EnvFile)
	o.WorkerEnv = []byte(data + "CONCOURSE_OF_THE_OPERATOR=1\nCONCOURSE_CONTAINERD_CONFIG=/old\n")
	o.Config = configOf(t, map[string]any{"srv-folders": "none"})
	d = DesireWorker(o)
	without := env(t, d)
	for _, name := range []string{"CONCOURSE_TAG", "CONCOURSE_CONTAINERD_BIN", "CONCOURSE_CONTAINERD_CONFIG", "https_proxy"} {
		require.NotContains(t, without, name)
	}
	require.Equal(t, "1", without["CONCOURSE_OF_THE_OPERATOR"])
	for _, path := range []string{oci.DefaultConfig, concourse.Launcher, cdi.Path, "/etc/systemd/system/" + PebbleUnit} {
		require.True(t, absent(d, path), path)
	}
	require.False(t, d.Exporter)
}

// D44: the predecessor handed every GPU to every task. D51: the release's own
// runc is behind the wrapper.
func TestD44D51WrapperGetsTheChosenGPUsAndTheReleasesRunc(t *testing.T) {
	for ids, want := range map[string]int{"all": 4, "0": 1, "1-2": 2} {
		o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-device-ids": ids})
		d := DesireWorker(o)
		data, ok := file(d, oci.DefaultConfig)
		require.True(t, ok)
		c, err := decodeWrapper(data)
		require.NoError(t, err)
		require.Equal(t, concourse.RealRunc, c.Runtime)
		require.Equal(t, oci.Tasks, c.Containers)
		require.Equal(t, []string{cdi.Path}, c.Specs)
		require.Len(t, c.Devices, want)
		spec, ok := file(d, cdi.Path)
		require.True(t, ok)
		for _, name := range c.Devices {
			_, device, _ := strings.Cut(name, "=")
			require.Contains(t, spec, fmt.Sprintf("%q", device))
		}
		require.Equal(t, fmt.Sprintf(" (GPU: %dx AMD)", want), d.Suffix)
		require.Contains(t, env(t, d)["CONCOURSE_TAG"], fmt.Sprintf("gpu-count=%d", want))
	}
}

// D46: the predecessor's CDI file was made once and never again.
func TestD46CDIFollowsTheMachine(t *testing.T) {
	devices := func(host string) (names []string) {
		data, ok := file(DesireWorker(observed(t, hosttest.Host(t, host), map[string]any{"compute-runtime": "rocm"})), cdi.Path)
		require.True(t, ok)
		var spec struct{ Devices []struct{ Name string } }
		require.NoError(t, json.Unmarshal([]byte(data), &spec))
		for _, d := range spec.Devices {
			names = append(names, d.Name)
		}
		return names
	}
	require.Contains(t, devices("amd"), "0")
	require.NotContains(t, devices("amd"), "1")
	require.Contains(t, devices("mi210x4"), "3")
	d := DesireWorker(observed(t, hosttest.Host(t, "nvidia-only"), map[string]any{"compute-runtime": "rocm"}))
	require.True(t, absent(d, cdi.Path), "without the GPU its description goes")
}

// The same machine gives the same plan, whatever the order of maps.
func TestDesireIsAFunctionOfWhatWasObserved(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Host(t, "both-passed"))
	var first string
	for range 5 {
		o := observed(t, h.Root, map[string]any{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
		p, err := plan.Diff(t.Context(), h, DesireWorker(o).Resources...)
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(t, p.Print(&b))
		if first == "" {
			first = b.String()
		}
		require.Equal(t, first, b.String())
	}
}

// Nor does it change what it is given.
func TestDesireLeavesWhatWasObservedAsItIs(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		r := hosttest.Host(t, name)
		for _, set := range []map[string]any{nil, {"compute-runtime": "auto"}, {"compute-runtime": "rocm", "gpu-sharing": "exclusive"}} {
			o, same := running(linked(t, r, set)), running(linked(t, r, set))
			same.CharmDir = o.CharmDir
			one, two := DesireWorker(o), DesireWorker(o)
			require.Equal(t, same, o, "%s: %v", name, set)
			require.Equal(t, one.Causes, two.Causes, name)
			require.Len(t, two.Resources, len(one.Resources), name)
		}
	}
	o, same := observedWeb(t, nil), observedWeb(t, nil)
	same.CharmDir = o.CharmDir
	one, two := DesireWeb(o), DesireWeb(o)
	require.Equal(t, same, o)
	require.Equal(t, one.Secret, two.Secret)
	require.Len(t, two.Resources, len(one.Resources))
}

// What can't be written down is not done by halves.
func TestImpossibleEnvironmentFailsThePlan(t *testing.T) {
	o := observed(t, hosttest.Host(t, "amd"), nil)
	o.Config.Tags = []string{"a\nCONCOURSE_TSA_HOST=evil"}
	_, err := plan.Diff(t.Context(), hosttest.Quiet(t, hosttest.Host(t, "amd")), DesireWorker(o).Resources...)
	require.EqualError(t, err, "cannot write CONCOURSE_TAG: the value holds a line end or another control character")
}

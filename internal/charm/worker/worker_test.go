package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// D4: the predecessor was active without any web to register at.
func TestD4WorkerWithoutAWebWaits(t *testing.T) {
	two := append(related(map[string]map[string]string{"web/0": webUnit()}), model.Relation{ID: "flight:9", Units: map[string]map[string]string{"other/0": webUnit()}})
	half := map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222"}}
	wrong := map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2", "tsa-public-key": roletest.TSAKey}}
	for name, tt := range map[string]struct {
		flights []model.Relation
		want    string
	}{
		"no relation":     {nil, "waiting: Waiting for a web — run: juju integrate concourse-ci-machine:flight <web application>:tsa"},
		"no units":        {related(nil), "waiting: Waiting for TSA connection info..."},
		"no key yet":      {related(half), "waiting: Waiting for TSA connection info..."},
		"a useless value": {related(wrong), `waiting: Waiting for TSA connection info...; flight: web/0 tsa-host: "10.0.0.2" is not host:port`},
		"two webs":        {two, "blocked: flight: related to 2 webs, and a worker serves one — run: juju remove-relation concourse-ci-machine:flight <web application>"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(t, hosttest.Host(t, "amd"), nil)
			o.Facts.Flights = tt.flights
			o.TSA, o.TSAProblems = model.ChooseTSA(model.Facts{Config: workerMode(), Flights: tt.flights})
			d := Desire(o, nil)
			require.Equal(t, tt.want, text("Ready", d.Causes))
			require.False(t, d.Up)
			for _, r := range d.Resources {
				if s, ok := r.(resource.Service); ok {
					require.False(t, s.Up, s.Unit)
				}
			}
			d = Desire(running(o), nil)
			_, written := resourcetest.File(d.Resources, concourse.EnvFile)
			require.Equal(t, len(tt.flights) == 0, written, "a worker that is left running keeps what it was started with; one without a relation ends")
		})
	}
	o := observed(t, hosttest.Host(t, "amd"), nil)
	require.True(t, Desire(o, nil).Up)
}

func TestWorkerBesideAWebThatIsNotReadyNamesWhereToLook(t *testing.T) {
	for program, want := range map[wellknown.Program]string{
		"":                       "waiting: Waiting for the leader's web: see the leader's status",
		wellknown.MachineProgram: "waiting: Waiting for the web of this machine — run: sudo concourse-ci-machine logs",
	} {
		o := observed(t, hosttest.Host(t, "amd"), nil)
		o.Facts.Config, o.Facts.Program, o.TSA = map[string]any{"mode": "all"}, program, concourse.TSA{}
		require.Equal(t, want, text("Ready", Desire(o, nil).Causes))
	}
}

// D16, D17: only changes of the worker's files restart it.
func TestD16D17OnlyItsOwnFilesRestartTheWorker(t *testing.T) {
	base := func() Observed {
		return running(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"}))
	}
	for name, tt := range map[string]struct {
		change   func(*Observed)
		restarts bool
	}{
		"nothing":           {func(*Observed) {}, false},
		"another hook":      {func(o *Observed) { o.Event = "flight-relation-changed" }, false},
		"a second web unit": {func(o *Observed) { o.Facts.Flights[0].Units["web/1"] = webUnit() }, false},
		"its own key came back": {func(o *Observed) {
			o.Facts.Flights[0].Units["web/0"]["worker-key-authorized-at"] = "now"
			o.Facts.Flights[0].Own["worker-public-key"] = "ssh-rsa A"
		}, false},
		"time passed":         {func(o *Observed) { o.Now = o.Now.Add(time.Hour) }, false},
		"drain timeout":       {func(o *Observed) { o.Config.Worker.DrainTimeout = time.Hour }, false},
		"the exporter is new": {func(o *Observed) { o.Programs = []byte("2") }, false},
		"a tag":               {func(o *Observed) { o.Config.Worker.Tag = []string{"big"} }, true},
		"another TSA":         {func(o *Observed) { o.Facts.Flights[0].Units["web/0"]["tsa-host"] = "10.0.0.9:2222" }, true},
		"another release":     {func(o *Observed) { o.ReleaseID = "8.3.0" }, true},
		"no GPUs":             {func(o *Observed) { o.Config.GPU.ComputeRuntime = config.RuntimeNone }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := resourcetest.Trigger(t, Desire(base(), nil).Resources, RestartWorker)
			o := base()
			tt.change(&o)
			o.TSA, o.TSAProblems = model.ChooseTSA(o.Facts)
			after := resourcetest.Trigger(t, Desire(o, nil).Resources, RestartWorker)
			require.False(t, after.Adopt, "a running worker was not just started")
			if tt.restarts {
				require.NotEqual(t, before.Inputs, after.Inputs)
			} else {
				require.Equal(t, before.Inputs, after.Inputs)
			}
		})
	}
}

// systemd has not started the unit yet, so a changed file needs a restart.
func TestOnlyUnitsStartedNowNeedNoRestart(t *testing.T) {
	for active, want := range map[string]bool{"inactive": true, "failed": true, "": true, "active": false, "activating": false} {
		require.Equal(t, want, role.Starts(resource.UnitState{Active: active}), active)
	}
}

// D23: the predecessor set up GPUs on units without GPUs.
func TestD23NoRuntimePlansNothingForGPUs(t *testing.T) {
	o := observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "none", "amd-container-toolkit": "required", "srv-folders": "none"})
	d := Desire(o, nil)
	require.Empty(t, d.Toolkit)
	require.False(t, d.Watches)
	require.Empty(t, d.Causes)
	h := hosttest.Quiet(t, hosttest.Host(t, "amd"))
	p, err := plan.Diff(t.Context(), h, d.Resources...)
	require.NoError(t, err)
	for _, s := range p {
		for _, part := range []string{"amd-container", "/etc/apt", "/etc/cdi", "wrapper.json", "runtime/containerd"} {
			require.NotContains(t, s.Op, part)
		}
	}
	require.NotContains(t, env(t, d), "CONCOURSE_CONTAINERD_BIN")
	require.NotContains(t, env(t, d), "CONCOURSE_TAG")
}

// A worker without GPUs serves the verdicts on its tasks. No GPU is read for it, and no
// program of root runs.
func TestExporterWithoutGPUsServesVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		set  map[string]any
		runs bool
	}{
		"no GPU":                         {"no-gpu", map[string]any{"compute-runtime": "auto"}, true},
		"GPUs that are not for tasks":    {"amd", map[string]any{"compute-runtime": "none"}, true},
		"a required GPU that is missing": {"no-gpu", map[string]any{"compute-runtime": "rocm"}, true},
		"no records":                     {"no-gpu", map[string]any{"task-record-size": 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Desire(observed(t, hosttest.Host(t, c.host), c.set), nil)
			require.Equal(t, c.runs, d.Exporter)
			require.False(t, d.Watches)
			layer, _ := resourcetest.File(d.Resources, role.ExporterLayer)
			if !c.runs {
				require.Empty(t, layer)
				require.True(t, absent(d, "/etc/systemd/system/"+role.PebbleUnit))
				return
			}
			require.Contains(t, layer, "--collect.usage=false")
			require.Contains(t, layer, "--tasks.report="+verdict.ReportPath)
			for _, program := range []string{role.GPUService, "write-gpus", "--service.report"} {
				require.NotContains(t, layer, program)
			}
		})
	}
}

// D26: cleared options left the predecessor's variables behind. D49: so did
// the GPU wrapper.
func TestD26D49ClearedOptionsAreRemoved(t *testing.T) {
	r := hosttest.Host(t, "amd")
	o := running(observed(t, r, map[string]any{"compute-runtime": "rocm", "tag": "big", "https-proxy": "http://proxy:3128"}))
	d := Desire(o, nil)
	with := env(t, d)
	require.Equal(t, "big,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx=gfx1100", with["CONCOURSE_TAG"], "D43")
	require.Equal(t, concourse.Launcher, with["CONCOURSE_CONTAINERD_BIN"])
	require.Equal(t, "http://proxy:3128", with["https_proxy"])
	require.True(t, d.Exporter)

	data, _ := resourcetest.File(d.Resources, concourse.EnvFile)
	o.WorkerEnv = []byte(data + "CONCOURSE_OF_THE_OPERATOR=1\nCONCOURSE_CONTAINERD_CONFIG=/old\n")
	o.Config = roletest.Config(t, map[string]any{"srv-folders": "none"})
	d = Desire(o, nil)
	without := env(t, d)
	for _, name := range []string{"CONCOURSE_TAG", "CONCOURSE_CONTAINERD_BIN", "CONCOURSE_CONTAINERD_CONFIG", "https_proxy"} {
		require.NotContains(t, without, name)
	}
	require.Equal(t, "1", without["CONCOURSE_OF_THE_OPERATOR"])
	for _, path := range []string{oci.DefaultConfig, concourse.Launcher, cdi.Path} {
		require.True(t, absent(d, path), path)
	}
	require.False(t, d.Watches)
}

// D44: the predecessor handed every GPU to every task. D51: the release's own
// runc is behind the wrapper.
func TestD44D51WrapperGetsTheChosenGPUsAndTheReleasesRunc(t *testing.T) {
	for ids, want := range map[string]int{"all": 4, "0": 1, "1-2": 2} {
		o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-device-ids": ids})
		d := Desire(o, nil)
		data, ok := resourcetest.File(d.Resources, oci.DefaultConfig)
		require.True(t, ok)
		c, err := roletest.DecodeWrapper(data)
		require.NoError(t, err)
		require.Equal(t, concourse.RealRunc, c.Runtime)
		require.Equal(t, oci.Tasks, c.Containers)
		require.Equal(t, []string{cdi.Path}, c.Specs)
		require.Len(t, c.GPUs, want)
		spec, ok := resourcetest.File(d.Resources, cdi.Path)
		require.True(t, ok)
		for _, g := range c.GPUs {
			_, device, _ := strings.Cut(g.CDI, "=")
			require.Contains(t, spec, fmt.Sprintf("%q", device))
		}
		require.Equal(t, fmt.Sprintf(" (GPU: %dx AMD)", want), d.Suffix)
		require.Contains(t, env(t, d)["CONCOURSE_TAG"], fmt.Sprintf("gpu-count=%d", want))
	}
}

// D46: the predecessor's CDI file was made once and never again.
func TestD46CDIFollowsTheMachine(t *testing.T) {
	devices := func(host string) (names []string) {
		data, ok := resourcetest.File(Desire(observed(t, hosttest.Host(t, host), map[string]any{"compute-runtime": "rocm"}), nil).Resources, cdi.Path)
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
	d := Desire(observed(t, hosttest.Host(t, "nvidia-only"), map[string]any{"compute-runtime": "rocm"}), nil)
	require.True(t, absent(d, cdi.Path), "without the GPU its description goes")
}

// The same machine gives the same plan, for any order of maps.
func TestDesireIsDeterministic(t *testing.T) {
	h := hosttest.Quiet(t, hosttest.Host(t, "both-passed"))
	var first string
	for range 5 {
		o := observed(t, h.Root, map[string]any{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
		p, err := plan.Diff(t.Context(), h, Desire(o, nil).Resources...)
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(t, p.Print(&b))
		if first == "" {
			first = b.String()
		}
		require.Equal(t, first, b.String())
	}
}

// Desire does not change its input.
func TestDesireDoesNotChangeItsInput(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		r := hosttest.Host(t, name)
		for _, set := range []map[string]any{nil, {"compute-runtime": "auto"}, {"compute-runtime": "rocm", "gpu-sharing": "exclusive"}} {
			o, same := running(linked(t, r, set)), running(linked(t, r, set))
			same.CharmDir = o.CharmDir
			one, two := Desire(o, nil), Desire(o, nil)
			require.Equal(t, same, o, "%s: %v", name, set)
			require.Len(t, two.Resources, len(one.Resources), name)
			one.Resources, two.Resources = nil, nil // they have functions
			require.Equal(t, one, two, name)
		}
	}
}

// An environment that cannot be written fails the whole plan.
func TestImpossibleEnvironmentFailsThePlan(t *testing.T) {
	o := observed(t, hosttest.Host(t, "amd"), nil)
	o.Config.Worker.Tag = []string{"a\nCONCOURSE_TSA_HOST=evil"}
	_, err := plan.Diff(t.Context(), hosttest.Quiet(t, hosttest.Host(t, "amd")), Desire(o, nil).Resources...)
	require.EqualError(t, err, "cannot write CONCOURSE_TAG: the value holds a line end or another control character")
}

// With mode=auto the web is a peer. It disconnects a worker that has left the relation, so
// tasks must end earlier.
func TestWorkerOfModeAutoDrainsBeforeItLeavesThePeers(t *testing.T) {
	o := running(observed(t, hosttest.Host(t, "no-gpu"), nil))
	o.Event, o.Facts = "peers-relation-broken", model.Facts{Unit: "ci/1", Role: model.WorkerRole, Config: map[string]any{"mode": "auto"}}
	o.TSA, o.TSAProblems = model.ChooseTSA(o.Facts)
	drains := slices.ContainsFunc(Desire(o, nil).Resources, func(r plan.Resource) bool {
		d, is := r.(concourse.Drain)
		return is && d.Disrupts == role.RunningTasks && role.EndsTasks(o.Event, o.Facts)
	})
	require.True(t, drains)
}

// A worker without a relation is stopped in the same hook, with its environment.
func TestBrokenRelationStopsTheWorkerAtOnce(t *testing.T) {
	o := running(observed(t, hosttest.Host(t, "amd"), nil))
	o.Event, o.Facts.Flights = "flight-relation-broken", nil
	o.TSA, o.TSAProblems = model.ChooseTSA(model.Facts{Config: workerMode()})
	d := Desire(o, nil)
	_, rewritten := resourcetest.File(d.Resources, concourse.EnvFile)
	require.True(t, rewritten, "the next hook has nothing left to do")
}

func TestTagCanContainTheUnitName(t *testing.T) {
	for _, tt := range []struct{ tags, want []string }{
		{nil, nil},
		{[]string{"ml"}, []string{"ml"}},
		{[]string{"ml", "unit={unit}"}, []string{"ml", "unit=rocm-worker-3"}},
		{[]string{"{Unit}"}, []string{"{Unit}"}},
	} {
		require.Equal(t, tt.want, unitTags(tt.tags, "rocm-worker/3"))
	}
}

// If the kernel does not report the architecture of a GPU, the status names the option to
// set, and tasks get no guessed architecture. The GPUs and the worker's tags are
// unaffected.
func TestUnknownArchitectureIsReported(t *testing.T) {
	const cause = "the kernel reports no architecture for 1 of 4 GPUs; add it to task-env, such as HIP_ARCHES=gfx942"
	for name, c := range map[string]struct {
		set    map[string]any
		causes []status.Cause
		arches string
	}{
		"nobody says":        {nil, []status.Cause{{Kind: status.Blocked, Text: cause}}, ""},
		"task-env says":      {map[string]any{"task-env": "HIP_ARCHES=gfx90a"}, nil, "gfx90a"},
		"as far as it knows": {map[string]any{"task-env": "HSA_OVERRIDE_GFX_VERSION=auto"}, []status.Cause{{Kind: status.Blocked, Text: cause}}, ""},
	} {
		set := map[string]any{"compute-runtime": "rocm"}
		maps.Copy(set, c.set)
		o := observed(t, hosttest.Host(t, "mi210x4"), set)
		o.GPUs.GPUs = append([]gpu.GPU(nil), o.GPUs.GPUs...)
		for i, g := range o.GPUs.GPUs {
			if g.Vendor == gpu.AMD {
				o.GPUs.GPUs[i].GFX = ""
				break
			}
		}
		d := Desire(o, nil)
		require.Equal(t, c.causes, d.Causes, name)
		require.Equal(t, c.arches, wrapperOf(t, d).Env["HIP_ARCHES"], name)
		require.Len(t, wrapperOf(t, d).GPUs, 4, name)
		require.Equal(t, "gpu,compute-runtime=rocm,rocm,gpu-count=4,gfx=gfx90a", env(t, d)["CONCOURSE_TAG"], name)
		require.Equal(t, "gfx90a=3", d.GPUs.Databag()["gpu-archs"], name)
	}
}

func TestWorkerOfAnotherVersionIsBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		own, web string
		text     string
	}{
		"it follows the web":   {"", "8.3.0", ""},
		"it fits":              {"8.3.1", "8.3.0", ""},
		"it is older":          {"8.2.5", "8.3.0", "a worker of Concourse 8.2.5 gets no work from a web of 8.3.0 — to follow the web, run: juju config gpu --reset version"},
		"it is newer":          {"8.3.0", "8.2.5", "a worker of Concourse 8.3.0 gets no work from a web of 8.2.5 — to follow the web, run: juju config gpu --reset version"},
		"the web is not known": {"8.3.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var o Observed
			o.Facts.Unit, o.Config.Release.Version, o.TSA = "gpu/0", c.own, concourse.TSA{Version: c.web}
			var got []status.Cause
			for _, cause := range webCauses(o).sortedCauses() {
				if cause.Kind == status.Blocked {
					got = append(got, cause)
				}
			}
			if c.text == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, c.text, got[0].String())
		})
	}
}

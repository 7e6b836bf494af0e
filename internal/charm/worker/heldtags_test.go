package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// withTask returns a worker with one GPU and a running task, and new options.
func withTask(t *testing.T, set map[string]any) Observed {
	t.Helper()
	o := observed(t, hosttest.Host(t, "amd"), map[string]any{"mode": "worker", "compute-runtime": "rocm"})
	data, ok := resourcetest.File(Desire(o, nil).Resources, concourse.EnvFile)
	require.True(t, ok)
	o = running(o)
	o.WorkerEnv, o.WebKey, o.InstalledID, o.RunningTasks = []byte(data), roletest.TSAKey+"\n", o.ReleaseID, 1
	all := map[string]any{"mode": "worker", "compute-runtime": "rocm"}
	for option, value := range set {
		all[option] = value
	}
	o.Config = roletest.Config(t, all)
	return o
}

// A web that starts again errors the build of a running task if its worker has other tags.
func TestNewTagsWaitForRunningTasks(t *testing.T) {
	none := map[string]any{"compute-runtime": "none"}
	for name, c := range map[string]struct {
		set    map[string]any
		change func(*Observed)
		held   bool
	}{
		"no GPUs for tasks":     {none, nil, true},
		"another tag":           {map[string]any{"tag": "slow"}, nil, true},
		"equal tags":            {map[string]any{"log-level": "debug"}, nil, false},
		"no task runs":          {none, func(o *Observed) { o.RunningTasks = 0 }, false},
		"the worker is down":    {none, func(o *Observed) { o.Units = map[string]resource.UnitState{} }, false},
		"it waits":              {none, func(o *Observed) { o.HeldUntil = o.Now.Add(time.Minute) }, true},
		"it waited":             {none, func(o *Observed) { o.HeldUntil = o.Now }, false},
		"the clock was changed": {none, func(o *Observed) { o.HeldUntil = o.Now.Add(24 * time.Hour) }, true},
		"a shorter timeout":     {map[string]any{"tag": "slow", "worker-drain-timeout": "5m"}, func(o *Observed) { o.HeldUntil = o.Now.Add(7 * time.Minute) }, true},
		"tasks get no time":     {map[string]any{"tag": "slow", "worker-drain-timeout": "0s"}, nil, false},
		"another release":       {none, func(o *Observed) { o.InstalledID = "8.2.4" }, false},
		"another key of webs":   {none, func(o *Observed) { o.WebKey = "ssh-rsa AAAA" }, false},
		"another web":           {none, func(o *Observed) { o.TSA.Hosts = []string{"10.0.0.9:2222"} }, false},
		"one more web":          {none, func(o *Observed) { o.TSA.Hosts = append(o.TSA.Hosts, "10.0.0.9:2222") }, true},
		"every GPU is sick": {nil, func(o *Observed) {
			out := o.Now.Add(-time.Hour)
			o.Quarantine.GPUs = []quarantine.GPU{{Ref: quarantine.Ref{Name: "0000:03:00.0"}, State: quarantine.Quarantined, QuarantinedSince: &out}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := withTask(t, c.set)
			if c.change != nil {
				c.change(&o)
			}
			d := Desire(o, nil)
			_, written := resourcetest.File(d.Resources, concourse.EnvFile)
			require.Equal(t, !c.held, written)
			until, waits := resourcetest.File(d.Resources, heldFile)
			require.Equal(t, c.held, waits)
			removed := slices.IndexFunc(d.Resources, isAbsent(heldFile))
			require.Equal(t, !c.held, removed > -1)
			if !c.held { // if a step before fails, the next hook must not hold the tags again
				require.Equal(t, -1, slices.IndexFunc(d.Resources[removed:], isService(concourse.Unit)))
			}
			if c.held && o.HeldUntil.IsZero() {
				require.Equal(t, o.Now.Add(10*time.Minute).Format(time.RFC3339)+"\n", until)
			}
			if name == "no GPUs for tasks" {
				require.Contains(t, text("Worker ready", d.Causes), "new tags wait for running tasks: 1: -gpu -compute-runtime=rocm -rocm "+
					"-gpu-count=1 -gfx=gfx1100; the worker and its GPUs stay as they are until 03:14 UTC at the latest (worker-drain-timeout)")
			}
		})
	}
}

func isAbsent(path string) func(plan.Resource) bool {
	return func(r plan.Resource) bool { a, is := r.(resource.Absent); return is && a.Path == path }
}

func isService(unit string) func(plan.Resource) bool {
	return func(r plan.Resource) bool { s, is := r.(resource.Service); return is && s.Unit == unit }
}

// The web keeps its page and its limit, and the exporter watches the GPUs that tasks use.
func TestGPUsStayPublishedAndWatchedWhileTheirTagsWait(t *testing.T) {
	for name, mode := range map[string]string{"flight": "worker", "peers": "auto"} {
		t.Run(name, func(t *testing.T) {
			before := withTask(t, nil)
			o := withTask(t, map[string]any{"compute-runtime": "none"})
			was := Desire(before, nil)
			bag := was.GPUs.After(nil, o.Now).Databag()
			o.Facts.Flights[0].Own = bag
			if mode == "auto" {
				o.Facts.Config, o.Facts.Flights, o.Facts.Peer = nil, nil, &model.Relation{ID: "peers:1", Own: bag}
			}
			o.Exports, o.Known = true, was.Known
			o.TSAProblems = []string{"its key is wrong"}
			d := Desire(o, nil)
			_, waits := resourcetest.File(d.Resources, heldFile)
			require.True(t, waits)
			require.Equal(t, bag, d.GPUs.After(bag, o.Now).Databag())
			require.Equal(t, was.Known, d.Known)
			require.True(t, d.Exporter && d.Watches)
			require.Equal(t, -1, slices.IndexFunc(d.Resources, isService(role.PebbleUnit)))
			require.False(t, resourcetest.Absent(d.Resources, tagsFile), "it changes with the tags")
			require.Contains(t, text("Worker ready", d.Causes), "flight: its key is wrong")
			o.RunningTasks = 0
			require.Zero(t, Desire(o, nil).GPUs.Total())
		})
	}
}

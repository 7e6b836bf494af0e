package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// windowsBox returns a worker on Windows as Concourse lists it.
func windowsBox(name, state string, archs ...string) concourse.WorkerInfo {
	return concourse.WorkerInfo{Name: name, State: state, Platform: "windows",
		Tags: beacon.Tags([]string{"windows"}, beacon.GPUTags{Runtime: "rocm", Count: len(archs), Archs: archs})}
}

func TestWorkersOnWindowsCountForRequiredArchitectures(t *testing.T) {
	o := withWorkers(observedWeb(t, map[string]any{"required-archs": "gfx942,gfx1201"}), roletest.GPUWorker("gpu/0", 8))
	missing := []status.Cause{{Kind: status.Active, Text: "required-archs: no worker has gfx1201"}}
	require.Equal(t, missing, Desire(o, nil).Causes)
	for _, tc := range []struct {
		known concourse.WorkerInfo
		want  []status.Cause
	}{
		{windowsBox("box", "running", "gfx1201"), nil},
		{windowsBox("box", "stalled", "gfx1201"), missing},
		{windowsBox("box", "running", "gfx1100"), missing},
		{concourse.WorkerInfo{Name: "mac", State: "running", Platform: "darwin", Tags: windowsBox("", "", "gfx1201").Tags}, missing},
	} {
		o.Windows = RunningOnWindows(o.Facts.Web.SortedWorkers(), []concourse.WorkerInfo{tc.known})
		require.Equal(t, tc.want, Desire(o, nil).Causes, "%v", tc.known)
	}
}

func TestFleetHasWorkersOnWindows(t *testing.T) {
	related := []model.Worker{roletest.GPUWorker("gpu/0", 8)}
	f := FleetOf(related, []concourse.WorkerInfo{windowsBox("box", "running", "gfx1201", "gfx1201"), windowsBox("off", "stalled", "gfx1201"),
		windowsBox("plain", "running"), {Name: "mac", State: "running", Platform: "darwin"}}, hosttest.Now)
	got := map[string]FleetWorker{}
	for _, w := range f.Workers {
		got[w.Worker] = w
	}
	two := 2
	tasks := 0
	require.Equal(t, FleetWorker{Worker: "box", State: "running", Tasks: &tasks, Platform: "windows", Runtime: "rocm", GPUs: 2,
		Archs: []relation.ArchCount{{Arch: "gfx1201", GPUs: 2}}, Sharing: "shared", InService: &two}, got["box"])
	require.Nil(t, got["off"].InService)
	require.Equal(t, 1, got["off"].GPUs)
	require.Equal(t, FleetWorker{Worker: "plain", State: "running", Tasks: &tasks, Platform: "windows"}, got["plain"])
	require.Equal(t, FleetWorker{Worker: "mac", State: "running", Tasks: &tasks}, got["mac"])
}

// A unit publishes each GPU, or only their number.
func TestFleetHasTheGPUsOfUnits(t *testing.T) {
	one := func(w model.Worker) FleetWorker { return FleetOf([]model.Worker{w}, nil, hosttest.Now).Workers[0] }
	got := one(roletest.Reporting(roletest.GPUWorker("gpu/0", 4, roletest.Exclusive), hosttest.Now, []int{0}, []int{1}))
	require.Len(t, got.Each, 4)
	require.Equal(t, &hosttest.Now, got.Since)
	require.Equal(t, []int{3, 2}, []int{*got.InService, *got.Free})
	require.Equal(t, "exclusive", got.Sharing)
	got = one(roletest.Reporting(roletest.GPUWorker("gpu/0", 4), hosttest.Now, nil, nil))
	require.Equal(t, 4, *got.InService)
	require.Nil(t, got.Free, "tasks share them")
	got = one(roletest.GPUWorker("gpu/0", 4))
	require.Nil(t, got.Each)
	require.Nil(t, got.Since)
	require.Nil(t, got.InService)
	require.Empty(t, one(roletest.GPUWorker("gpu/0", 0)).Sharing)
}

// A unit's own databag has precedence over tags.
func TestWorkerOfAUnitIsNotAWorkerOnWindows(t *testing.T) {
	require.Empty(t, RunningOnWindows([]model.Worker{{Unit: "gpu/0", Name: "box"}}, []concourse.WorkerInfo{windowsBox("box", "running", "gfx1201")}))
}

package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

// A worker that left keeps its key for the time that it announced. A clock that was set back
// does not make that longer than the option's maximum.
func TestDepartedWorkerDrainsForALimitedTime(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	most := config.MaxDrainTimeout + 15*time.Minute
	for left, want := range map[time.Duration]bool{-1: false, 0: false, 1: true, most: true, most + 1: false} {
		require.Equal(t, want, DepartedWorker{Until: now.Add(left)}.MayDrain(now), left)
	}
	require.False(t, DepartedWorker{}.MayDrain(now), "it announced none")
}

func TestKeysOfDepartedWorkersAreRemoved(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	before := &Web{Workers: map[string]Worker{
		"tsa:1 a/0": {Unit: "a/0", Key: "stays"},
		"tsa:1 a/1": {Unit: "a/1", Key: "left", Drain: time.Hour},
		"tsa:1 a/2": {Unit: "a/2", Key: "previous", Drain: time.Hour},
		"tsa:1 a/3": {Unit: "a/3"},
	}, Departed: []DepartedWorker{{Worker: Worker{Key: "earlier"}}, {Worker: Worker{Key: "back"}}}}
	o := &observer{now: now, last: Facts{Web: before}}
	departed := o.departed(map[string]Worker{"tsa:1 a/0": {Key: "stays"}, "tsa:1 a/2": {Key: "next"}, "tsa:2 b/0": {Key: "back"}})
	require.Equal(t, []DepartedWorker{
		{Worker: Worker{Key: "earlier"}},
		{Worker: before.Workers["tsa:1 a/1"], Until: now.Add(time.Hour + 15*time.Minute)},
		{Worker: before.Workers["tsa:1 a/2"], Replaced: true},
	}, departed)
	require.Nil(t, (&observer{}).departed(nil), "the first hook")
}

func TestWorkersOfAWeb(t *testing.T) {
	w := &Web{Workers: map[string]Worker{"tsa:2 b/0": {Name: "b", Key: "k2"}, "tsa:1 a/0": {Name: "a", Key: "k1"}, "tsa:3 c/0": {Name: "c"}},
		Departed: []DepartedWorker{{Worker: Worker{Name: "d"}}, {Worker: Worker{Name: "a"}, Replaced: true}}}
	require.ElementsMatch(t, []string{"k1", "k2"}, w.Authorized())
	require.Equal(t, []Worker{{Name: "a", Key: "k1"}, {Name: "b", Key: "k2"}, {Name: "c"}}, w.SortedWorkers())
	require.True(t, w.HasLeft("d"))
	require.False(t, w.HasLeft("a"), "its key was replaced")
	require.True(t, w.Related("a"))
	require.False(t, w.Related("x"))
	w.Workers["tsa:4 d/0"] = Worker{}
	require.True(t, w.Related("x"), "the name of one is not known")
	f := Facts{Unit: "ci/0", Peer: &Relation{ID: "peers:0"}, Web: w}
	require.Contains(t, f.WithKey("own").Web.Authorized(), "own")
	require.NotContains(t, w.Authorized(), "own")
	require.Equal(t, f, f.WithKey(""))
}

func TestRoleFollowsTheModeAndTheLeader(t *testing.T) {
	for mode, want := range map[config.Mode][2]Role{config.ModeWeb: {WebRole, WebRole}, config.ModeWorker: {WorkerRole, WorkerRole},
		config.ModeAuto: {WorkerRole, WebRole}, config.ModeAll: {WorkerRole, AllRole}, "x": {"", ""}} {
		require.Equal(t, want, [2]Role{roleOf(mode, false), roleOf(mode, true)}, mode)
	}
	f := Facts{Config: map[string]any{"mode": "x"}, KeptMode: config.ModeWeb}
	require.Equal(t, config.ModeWeb, f.Mode(), "an invalid mode changes nothing")
	require.False(t, f.LeaderIsWeb())
	require.True(t, Facts{}.LeaderIsWeb(), "the default is auto")
	require.True(t, AllRole.Web() && AllRole.Worker() && !WebRole.Worker() && !WorkerRole.Web())
}

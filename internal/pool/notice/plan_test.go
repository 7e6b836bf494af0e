package notice

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	build   = "0badcafe-0000-4000-8000-000000000001"
	another = "0badcafe-0000-4000-8000-000000000002"
	gpu0    = "0000:03:00.0"
	gpu1    = "0000:43:00.0"
)

var (
	noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	hang = health.Fault{Kind: health.Hang, Signals: []string{"ring gfx timeout"}}
	hot  = health.Fault{Kind: health.Hot, Component: "junction", Value: 111, Limit: 110}
	ue   = health.Fault{Kind: health.UncorrectableErrors, Value: 2}
)

// unit goes from look to look as a unit does.
type unit struct {
	at     time.Time
	record quarantine.Record
	memory Memory
	leased map[string][]string
	taken  map[string]string
	t      *testing.T
}

func newUnit(t *testing.T) *unit {
	u := &unit{at: noon, t: t}
	require.Empty(t, u.look(nil, nil))
	return u
}

// look is the next one, 15 s later: what is wrong with GPUs 0 and 1, and who has them.
func (u *unit) look(faults map[string]health.Fault, users map[string][]string) []Notice {
	u.at = u.at.Add(15 * time.Second)
	l := quarantine.Look{At: u.at, Policy: quarantine.Auto}
	for i, name := range []string{gpu0, gpu1} {
		s := quarantine.Reading{Slot: gpu.Slot{PCI: name, Index: i, GFX: "gfx1100"}, Up: true, State: health.Healthy}
		if f, sick := faults[name]; sick {
			s.State, s.Faults = health.Critical, []health.Fault{f}
		}
		l.GPUs = append(l.GPUs, s)
	}
	u.record = quarantine.Decide(u.record, l)
	var notices []Notice
	u.memory, notices = u.memory.Plan(Look{At: u.at, Record: u.record, Users: users, Leased: u.leased, Taken: u.taken})
	data, err := json.Marshal(u.memory)
	require.NoError(u.t, err)
	u.memory, err = file.Decode(data)
	require.NoError(u.t, err)
	return notices
}

func texts(notices []Notice) (all []string) {
	for _, n := range notices {
		all = append(all, n.Container[len(n.Container)-1:]+" "+n.Text)
	}
	return all
}

type faults = map[string]health.Fault
type users = map[string][]string

const hung = `concourse-ci-machine: GPU 0: hangs or is in reset (ring gfx timeout), seen at 12:00:30 UTC. Quarantined. What ran on it may be lost or wrong`

func TestBuildOnAFaultyGPUIsNotifiedOnce(t *testing.T) {
	u := newUnit(t)
	has := users{gpu0: {build}, gpu1: {another}}
	require.Equal(t, []string{"1 " + hung + ": run the build again"}, texts(u.look(faults{gpu0: hang}, has)))
	for range 3 {
		require.Empty(t, u.look(faults{gpu0: hang}, has))
	}
	// One that comes to it later, of those that were made before.
	require.Len(t, u.look(faults{gpu0: hang}, users{gpu0: {build, another}}), 1)
	// It is healthy again, and then not: that is another fault.
	require.Empty(t, u.look(nil, has))
	require.Empty(t, u.memory.Notified)
	require.Len(t, u.look(faults{gpu0: hang}, has), 2, "the other had it a moment ago")
}

func TestTaskThatLeasesGPUsIsInformedOnce(t *testing.T) {
	u := newUnit(t)
	u.leased = map[string][]string{build: {"GPU 0: MI300X gfx942, 0000:03:00.0, healthy", "GPU 1"}, "no-handle": {"GPU 2"}}
	want := []string{"1 concourse-ci-machine: GPU 0: MI300X gfx942, 0000:03:00.0, healthy; GPU 1, lease of this task"}
	notices := u.look(nil, nil)
	require.Equal(t, want, texts(notices))
	require.Empty(t, u.look(nil, nil))
	u.memory = u.memory.without(notices[0]) // its process does not run yet
	require.Equal(t, want, texts(u.look(nil, nil)))
	u.leased = nil
	require.Empty(t, u.look(nil, nil))
	require.Empty(t, u.memory.Leased)
}

// Without leases a task is told of other users of its GPU's memory once it has the GPU open.
func TestTaskBesideAProgramIsInformedOnce(t *testing.T) {
	const line = "GPU 0: 58 of 64 GiB are used by llama-server, pid 4242, of this machine"
	u := newUnit(t)
	u.taken = map[string]string{gpu0: line}
	has := users{gpu0: {build, "docker"}, gpu1: {another}}
	notices := u.look(nil, has)
	require.Equal(t, []string{"1 concourse-ci-machine: " + line}, texts(notices))
	require.Empty(t, u.look(nil, has))
	u.memory = u.memory.without(notices[0])
	require.Len(t, u.look(nil, has), 1)
	u.leased = map[string][]string{another: {"GPU 1"}}
	u.taken[gpu1] = line
	require.Equal(t, []string{"2 concourse-ci-machine: GPU 1, lease of this task"}, texts(u.look(nil, has)), "the lease's line has it")
	u.at = u.at.Add(time.Hour)
	require.Empty(t, u.look(nil, nil))
	require.Empty(t, u.memory.Taken)
}

// A task gets a notice if it had the GPU within the last minute. A clock that was set back
// makes its use unknown.
func TestUseOfAGPUIsRememberedForAMinute(t *testing.T) {
	for after, want := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 1: false, -1: false} {
		m := Memory{LastUses: map[string]map[string]time.Time{gpu0: {build: noon}}}
		_, kept := m.lastUses(Look{At: noon.Add(after)})[gpu0][build]
		require.Equal(t, want, kept, after)
	}
}

func TestContainersToNotify(t *testing.T) {
	for name, c := range map[string]struct {
		before users
		faults faults
		users  users
		want   []string
	}{
		"nobody has it":       {nil, faults{gpu0: hang}, users{gpu0: {}, gpu1: {build}}, nil},
		"it is well":          {nil, nil, users{gpu0: {build}}, nil},
		"it has it":           {nil, faults{gpu0: hang}, users{gpu0: {build}}, []string{"1 " + hung + ": run the build again"}},
		"it had it, told":     {users{gpu0: {build}}, faults{gpu0: hang}, users{gpu0: {}}, []string{"1 " + hung + ": run the build again"}},
		"users are not known": {users{gpu0: {build}}, faults{gpu0: hang}, users{}, []string{"1 " + hung + ": run the build again"}},
		"others' containers":  {nil, faults{gpu0: hang}, users{gpu0: {"0123456789ab", "lxc", "", "other", strings.ToUpper(build)}}, nil},
		"both GPUs, two builds": {nil, faults{gpu0: ue, gpu1: ue}, users{gpu0: {build, another}, gpu1: {build}}, []string{
			"1 concourse-ci-machine: GPU 0, 1: all GPUs at once: driver or machine: 2 uncorrectable errors, seen at 12:00:30 UTC. Quarantined. What ran on it may be lost or wrong: run the build again",
			"2 concourse-ci-machine: GPU 0: all GPUs at once: driver or machine: 2 uncorrectable errors, seen at 12:00:30 UTC. Quarantined. What ran on it may be lost or wrong: run the build again"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unit{at: noon, t: t}
			require.Empty(t, u.look(nil, c.before))
			require.Equal(t, c.want, texts(u.look(c.faults, c.users)))
		})
	}
}

func TestTaskOnAHotGPUIsNotRunAgain(t *testing.T) {
	u := newUnit(t)
	var told []string
	for range 22 {
		told = append(told, texts(u.look(faults{gpu0: hot}, users{gpu0: {build}}))...)
	}
	require.Equal(t, []string{"1 concourse-ci-machine: GPU 0: junction at 111 of 110 °C, seen at 12:05:30 UTC. Quarantined. This task keeps it, and may be slow"}, told)
}

func TestManualQuarantineSendsNoNotice(t *testing.T) {
	u := newUnit(t)
	var err error
	u.record, err = u.record.Quarantine(gpu0, "swap the riser", u.at)
	require.NoError(t, err)
	require.Empty(t, u.look(faults{gpu0: hang}, users{gpu0: {build}}))
}

func TestOldUsersAreNotNotified(t *testing.T) {
	u := newUnit(t)
	require.Empty(t, u.look(nil, users{gpu0: {build}}))
	for range 5 {
		require.Empty(t, u.look(nil, users{gpu0: {}}))
	}
	require.Empty(t, u.memory.LastUses)
	require.Empty(t, u.look(faults{gpu0: hang}, users{gpu0: {}}))
}

func TestFailedNoticeIsSentLater(t *testing.T) {
	u := newUnit(t)
	notices := u.look(faults{gpu0: hang}, users{gpu0: {build, another}})
	require.Len(t, notices, 2)
	u.memory = u.memory.without(notices[0])
	again := u.look(faults{gpu0: hang}, users{gpu0: {build, another}})
	require.Equal(t, notices[:1], again)
}

func TestTextFitsAPipe(t *testing.T) {
	const pipeBuf = 4096 // limits.h of Linux
	require.Less(t, len(sanitize.Line(strings.Repeat("\U0001F600", 3000), maxText))+len("\n\n"), pipeBuf)
}

func TestDamagedMemoryIsEmpty(t *testing.T) {
	for _, text := range []string{"", "{", `{"notified":[{"container":7}]}`} {
		m, err := file.Decode([]byte(text))
		require.NoError(t, err)
		require.Equal(t, Memory{}, m, text)
	}
}

func TestFieldOfAnOpenFile(t *testing.T) {
	require.Equal(t, "7", field("pos:\t0\nflags:\t02\nmnt_id:\t7\n", "mnt_id:"))
}

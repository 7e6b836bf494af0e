package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

func TestHeadingNamesUnitAndHost(t *testing.T) {
	for want, r := range map[string]Report{"GPUs": {}, "GPUs of gpu/0": {Unit: "gpu/0"}, "GPUs of node": {Host: "node"},
		"GPUs of gpu/0 on node": {Unit: "gpu/0", Host: "node"}} {
		require.Equal(t, want, Heading(r))
	}
}

// status returns a GPU, or a partition of one with several.
func status(pci string, state health.State, partition, partitions int, out quarantine.State) Status {
	s := Status{PCI: pci, Partition: partition, Partitions: partitions, Health: Health{State: state}}
	if out != "" {
		s.Service = &pool.Service{State: out}
	}
	return s
}

func TestSummaryCountsTheWorstFirst(t *testing.T) {
	for want, gpus := range map[string][]Status{
		"No GPU":           nil,
		"1 GPU: 1 healthy": {status("a", health.Healthy, 0, 1, "")},
		"3 GPUs: 1 critical, 1 unknown, 1 healthy": {status("a", health.Healthy, 0, 1, ""), status("b", "else", 0, 1, ""),
			status("c", health.Critical, 0, 1, quarantine.InService)},
		"2 GPUs: 1 critical, 1 warning; 1 quarantined; 1 on probation": {status("a", health.Warning, 0, 1, quarantine.OnProbation),
			status("b", health.Critical, 0, 1, quarantine.Quarantined)},
		"3 partitions of 2 GPUs: 2 healthy; 2 of them quarantined": {status("a", health.Healthy, 0, 2, quarantine.Quarantined),
			status("a", health.Healthy, 1, 2, quarantine.Quarantined), status("b", health.Healthy, 0, 1, "")},
	} {
		require.Equal(t, want, Summary(Report{GPUs: gpus}))
	}
}

// Two GPUs with an exporter that gives no address are not one.
func TestPartitionsOfOneGPUAreOneGroup(t *testing.T) {
	groups := GroupByGPU([]Status{status("a", "", 0, 2, ""), status("a", "", 1, 2, ""), status("b", "", 0, 1, ""), status("", "", 0, 1, ""), status("", "", 0, 1, "")})
	var sizes []int
	for _, g := range groups {
		sizes = append(sizes, len(g))
	}
	require.Equal(t, []int{2, 1, 1, 1}, sizes)
}

func TestHolderIsTheFirstUser(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	since, cus := now.Add(-12*time.Minute), 60.
	s := Status{Users: []User{
		{Container: "removed"},
		{Container: "", Processes: 1, Memory: map[string]float64{"gtt": 1 << 20, "vram": 1 << 30}},
		{Container: usage.Other, Processes: 2, Engines: map[string]float64{"gfx": 123}},
		{Container: "c", Processes: 1, Units: &cus, Engines: map[string]float64{"gfx": 10, "enc": 1}, Busy: map[string]float64{"gfx": .834}},
	}, View: pool.View{Lease: &pool.Lease{Held: true, Holder: pool.Holder{Container: "c", Since: &since}, Clocks: "fixed", Doubt: "x"}}}
	uses := UsesOf(s, now)
	require.Len(t, uses, 3)
	require.Equal(t, Use{Name: "c", Processes: 1, Engines: "enc 1.0s, gfx 83 % (10.0s)", Units: "60", Lease: "12m, in doubt, clocks fixed"}, uses[0])
	require.Equal(t, "1 process; enc 1.0s, gfx 83 % (10.0s); 60 compute units; leased: 12m, in doubt, clocks fixed", uses[0].Text())
	require.Equal(t, Use{Name: "no container", Processes: 1, Memory: "1.0 GiB vram, 1 MiB gtt"}, uses[1])
	require.Equal(t, Use{Name: "other containers", Processes: 2, Engines: "gfx 2m3s"}, uses[2])

	for want, one := range map[string]pool.Lease{"unknown": {Held: true}, "pod ns/p, container c": {Held: true, Holder: pool.Holder{Namespace: "ns", Pod: "p", Container: "c"}},
		"run-4f1c0a2b91d3 (ada: pytest)": {Held: true, Holder: pool.Holder{Kind: lease.Run, Container: "run-4f1c0a2b91d3", Title: "ada: pytest"}}} {
		uses = UsesOf(Status{View: pool.View{Lease: &one}}, now)
		require.Equal(t, []Use{{Name: want, Title: one.Title, Lease: "held"}}, uses)
	}
	require.Empty(t, UsesOf(Status{View: pool.View{Lease: &pool.Lease{Holder: pool.Holder{Container: "c"}}}}, now), "it was returned")
}

// A user is shown with the names and numbers of its processes, a process of the machine by its name.
func TestUsesHaveTheNamesOfTheirProcesses(t *testing.T) {
	run := pool.Holder{Kind: lease.Run, Container: "run-4f1c0a2b91d3", Title: "ada: pytest"}
	uses := UsesOf(Status{
		Users: []User{{Processes: 3}, {Container: run.Container, Processes: 3}},
		Processes: []usage.Process{{PID: 7, Name: "python3", Container: run.Container}, {PID: 8, Name: "python3", Container: run.Container},
			{PID: 9, Name: "Xorg"}, {PID: 10, Host: true}, {PID: 11, Name: "ollama"}, {Name: "other processes"}},
		View: pool.View{Lease: &pool.Lease{Held: true, Holder: run}},
	}, time.Time{})
	require.Len(t, uses, 2)
	require.Equal(t, []string{"run-4f1c0a2b91d3 (ada: pytest)", "ada: pytest", "python3", "3 processes: python3 (7), python3 (8); leased: held"},
		[]string{uses[0].Name, uses[0].Title, uses[0].ProcessNames(), uses[0].Text()})
	require.Equal(t, []string{"Xorg, ollama", "", "3 processes: Xorg (9), ollama (11)"}, []string{uses[1].Name, uses[1].Title, uses[1].Text()})
}

// A display and the driver itself use up to a tenth.
func TestLoadWithoutUsersIsNotKnown(t *testing.T) {
	tenth, more := .1, .11
	for _, c := range []struct {
		s    Status
		want string
	}{
		{Status{}, "users not known"},
		{Status{Users: []User{}}, "not in use"},
		{Status{Users: []User{}, Activity: &tenth}, "not in use"},
		{Status{Users: []User{}, Activity: &more}, "users not known"},
		{Status{View: pool.View{Lease: &pool.Lease{}}}, "free"},
		{Status{Users: []User{}, View: pool.View{Lease: &pool.Lease{}, Service: &pool.Service{State: quarantine.Quarantined}}}, "not in use"},
	} {
		require.Equal(t, c.want, Unused(c.s))
	}
}

// Text that is not known is left out, and no separator stays.
func TestTextOfAUse(t *testing.T) {
	for want, u := range map[string]Use{
		"0 processes":                         {},
		"1 process; 1.0 GiB vram":             {Processes: 1, Memory: "1.0 GiB vram"},
		"2 processes; gfx 1.0s; leased: held": {Processes: 2, Engines: "gfx 1.0s", Lease: "held"},
		"3 processes; 60 compute units":       {Processes: 3, Units: "60"},
	} {
		require.Equal(t, want, u.Text())
	}
	require.Equal(t, "1 KiB kfd, 2 KiB cpu", memoryText(map[string]float64{"cpu": 2048, "kfd": 1024, "vram": 0, "other": 1}))
	require.Empty(t, enginesText(User{}))
	for state, want := range map[health.State]health.State{"": health.Unknown, "x": health.Unknown, health.Warning: health.Warning} {
		require.Equal(t, want, StateOf(Status{Health: Health{State: state}}))
	}
}

func TestOnlyUniqueIDsAreTheGPUs(t *testing.T) {
	for uuid, want := range map[string]string{"GPU-4be2": "4be2", "692": "", "0000:03:00.0": "", "": ""} {
		require.Equal(t, want, Status{UUID: uuid}.Slot().UniqueID, uuid)
	}
}

package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusalNamesHoldersAndRemedy(t *testing.T) {
	at := time.Date(2026, 1, 2, 14, 15, 30, 0, time.UTC)
	held := func(gpu, container string, ago time.Duration) State {
		return State{GPU: gpu, Held: true, Container: container, Since: at.Add(-ago)}
	}
	for _, c := range []struct {
		name string
		r    Refusal
		want string
	}{
		{"two containers", Refusal{Reason: Busy, Count: 2, Total: 4, At: at, States: []State{
			held("GPU-1a", "4f1c", 12*time.Minute+25*time.Second), {GPU: "GPU-2b"}, held("GPU-3c", "77aa", 30*time.Hour), held("GPU-4d", "4f1c", 12*time.Minute+25*time.Second),
		}}, "cannot lease 2 GPUs: 1 of 4 is free; 0 (GPU-1a), 3 (GPU-4d) are held by the task of container 4f1c since 14:03:05 UTC (12m), 2 (GPU-3c) is held by the task of container 77aa since 08:15:30 UTC (30h); run the task again later, or request fewer by GPU_COUNT"},
		{"one named GPU", Refusal{Reason: Busy, Count: 1, Of: []string{"2"}, Total: 4, At: at, States: []State{held("2", "4f1c", time.Second)}, indexes: []int{2}},
			"cannot lease 1 GPU: 0 of the 1 that the task names are free; 2 is held by the task of container 4f1c since 14:15:29 UTC (1s); run the task again later"},
		{"in doubt", Refusal{Reason: Busy, Count: 1, Total: 1, At: at, States: []State{{GPU: "0", Held: true, Doubt: "its file is damaged"}}},
			"cannot lease 1 GPU: 0 of 1 are free; 0 is held [its file is damaged]; run the task again later"},
		{"more than there are", Refusal{Reason: Impossible, Count: 5, Total: 4}, "cannot lease 5 GPUs: this machine has 4; request fewer with GPU_COUNT"},
		{"more than are named", Refusal{Reason: Impossible, Count: 3, Of: []string{"a", "b"}, Total: 4}, "cannot lease 3 GPUs: the task names 2; request fewer with GPU_COUNT"},
		{"an exec that comes too late", Refusal{Reason: Busy, Count: 1, Total: 2, At: at, PreviousContainer: "old", States: []State{held("1", "new", time.Minute)}, indexes: []int{1}},
			"cannot use 1 GPU in container old again: its task has ended, and since then 1 is held by the task of container new since 14:14:30 UTC (1m); run the task again"},
	} {
		t.Run(c.name, func(t *testing.T) { require.EqualError(t, &c.r, c.want) })
	}
}

func TestRefusalOfManyHoldersStaysShort(t *testing.T) {
	r := Refusal{Reason: Busy, Count: 1, Total: 64, States: make([]State, 64)}
	for i := range r.States {
		r.States[i] = State{GPU: "g", Held: true, Container: string(rune('A' + i))}
	}
	require.Contains(t, r.Error(), " and others hold the rest")
	require.Less(t, len(r.Error()), 1000)
}

// A machine without Juju has containers and runs, not tasks of a unit.
func TestRefusalOfContainersAndRunsSpeaksOfTheMachine(t *testing.T) {
	for _, kind := range []Kind{Container, Run} {
		for _, reason := range []Reason{Busy, Impossible, NotInService, Unready} {
			for _, of := range [][]string{nil, {"2"}} {
				r := Refusal{Reason: reason, Kind: kind, Count: 2, Of: of, Total: 1, Unready: "1 is busy", Excluded: "GPU 1 is quarantined",
					States: []State{{GPU: "0", Held: true, Container: "c", Kind: kind}}}
				require.NotRegexp(t, `(?i)\bunit|\btask|Concourse|juju|worker|gpu-(sharing|tasks)`, r.Error())
			}
		}
	}
}

package oci

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/pool/lease"
)

func TestWhatIsWaitedForWhenAllGPUsAreHeld(t *testing.T) {
	runs, ended := lease.State{Held: true, Container: "c1"}, lease.State{Held: true, Container: "c2", TaskEnded: true}
	for name, c := range map[string]struct {
		refusal lease.Refusal
		want    time.Duration
	}{
		"by tasks that run": {lease.Refusal{Reason: lease.Busy, Kind: lease.Task,
			States: []lease.State{runs}}, 0},
		"by what a task left behind": {lease.Refusal{Reason: lease.Busy, Kind: lease.Task,
			States: []lease.State{runs, ended}}, quarantineTime},
		"a container, by the same": {lease.Refusal{Reason: lease.Busy, Kind: lease.Container,
			States: []lease.State{ended}}, 0},
		"fly intercept, by the same": {lease.Refusal{Reason: lease.Busy, Kind: lease.Task,
			States: []lease.State{ended}, PreviousContainer: "c3"}, 0},
		"and there are fewer than wanted": {lease.Refusal{Reason: lease.Impossible, Kind: lease.Task,
			States: []lease.State{ended}}, 0},
	} {
		require.Equal(t, c.want, waitLimit(&c.refusal), name)
	}
}

//go:build e2e

package container

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
)

// quarantines has the unit's charm quarantine GPUs of this bed's unit, by name.
func (b *bed) quarantines(names ...string) {
	var gpus []admission.GPU
	for _, n := range names {
		gpus = append(gpus, admission.GPU{Name: n, Reason: "has been quarantined since 2026-08-01 14:03:05 UTC: hangs"})
	}
	require.NoError(b.t, os.WriteFile(b.path("admission.json"), admission.Encode(admission.File{GPUs: gpus}), 0o644))
}

// knows is lend for a unit with quarantine, whether it leases GPUs or not.
func (u *unit) knows(b *bed, leased bool) {
	c := b.unit
	c.Quarantine = b.path("admission.json")
	if !leased {
		c.Leases = nil
	}
	b.configure(c)
}

// With the real runc: a GPU that falls sick is in no container from then on, and stays
// with the task that has it, as do the commands that come into its container.
func TestQuarantinedGPUIsInNoFurtherContainer(t *testing.T) {
	for _, s := range settings[:2] {
		for name, leased := range map[string]bool{"shared": false, "leased": true} {
			t.Run(s.name+" "+name, func(t *testing.T) {
				u := newUnit(t, 2)
				first, second, third := u.container(s), u.container(s), u.container(s, "GPU_COUNT=2")
				for _, b := range []*bed{first, second, third} {
					u.knows(b, leased)
					b.bundle()
				}
				require.NoError(t, first.up())
				u.fifo(first.id)
				require.NoError(t, first.run(task))
				had := u.event()
				require.Equal(t, []string{"+", first.id}, had[:2])
				require.Contains(t, had[2:], "128")

				for _, b := range []*bed{first, second, third} {
					b.quarantines("GPU-0")
				}
				require.NoError(t, second.up())
				u.fifo(second.id)
				require.NoError(t, second.run(task))
				require.Equal(t, []string{"+", second.id, "129"}, u.event())
				require.ErrorContains(t, third.up(), "GPU 0 (GPU-0) has been quarantined since 2026-08-01 14:03:05 UTC: hangs")

				require.NoError(t, first.run(task), "a command into the container that has it")
				require.Equal(t, had, u.event())
			})
		}
	}
}

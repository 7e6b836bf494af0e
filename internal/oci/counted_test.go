package oci

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/pool/admission"
	"concourse-ci-machine/internal/pool/lease"
)

// A create that waits looks 180 times, and is refused once; one that gets its GPU in the
// end is not refused at all.
func TestEachRefusedContainerIsCountedOnce(t *testing.T) {
	sick := admission.File{GPUs: []admission.Quarantined{{Name: "GPU-3c4d", Reason: hung}}}
	full := admission.File{Memory: []admission.IdleMemory{{Name: "GPU-1a2b", File: "used", Most: 1},
		{Name: "GPU-3c4d", File: "used", Most: 1}}}
	for name, c := range map[string]struct {
		file   admission.File
		env    []any
		held   bool // another task has GPU-1a2b
		pauses int  // after which nothing is in the way any more; 0: never
		want   lease.Counters
	}{
		"held and withheld":          {sick, nil, true, 0, lease.Counters{Granted: 1, Busy: 1}},
		"withheld":                   {sick, []any{"GPU_COUNT=2"}, false, 0, lease.Counters{Busy: 1}},
		"withheld, and back in time": {sick, []any{"GPU_COUNT=2"}, false, 3, lease.Counters{Granted: 1}},
		"memory in use":              {full, nil, false, 0, lease.Counters{Busy: 1}},
		"more than there are":        {sick, []any{"GPU_COUNT=3"}, false, 0, lease.Counters{Impossible: 1}},
		"held": {admission.File{}, []any{"GPU_COUNT=2"}, true, 0,
			lease.Counters{Granted: 1, Busy: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := handedOver(t, c.file)
			b.put(t, "used", "8589934592\n")
			if c.held {
				require.NoError(t, b.task(t, "c0"))
			}
			pauses := 0
			b.sleep = func(time.Duration) {
				if pauses++; pauses == c.pauses {
					b.put(t, "withheld.json", string(admission.Encode(admission.File{})))
				}
			}
			err := b.task(t, "c1", c.env...)
			require.Equal(t, c.pauses > 0, err == nil, "%v", err)
			_, n, err := lease.Leases{Dir: b.path("leases"), GPUs: []string{"GPU-3c4d", "GPU-1a2b"},
				Euid: b.euid}.Read()
			require.NoError(t, err)
			require.Equal(t, c.want, n)
		})
	}
}

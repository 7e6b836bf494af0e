package deviceplugin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A quarantine has a cause in a word and a time, which a taint can carry.
func TestQuarantineHasACauseAndATime(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	since := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{At: since, Policy: quarantine.Auto, GPUs: []quarantine.GPU{
		{Ref: quarantine.Ref{Name: gpu0}, State: quarantine.Quarantined, QuarantinedBy: quarantine.ByHealth, Since: since,
			QuarantinedSince: &since, Fault: &health.Fault{Kind: health.LinksDown}},
		{Ref: quarantine.Ref{Name: gpu1}, State: quarantine.InService, Since: since}}}))
	hosttest.Put(t, r, "/run/concourse-ci-machine/.keep", "")
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "boot-1\n")
	n, err := LookAtNode(r, "", time.Now, Node{})
	require.NoError(t, err)
	require.Equal(t, "links_down", n.Devices[0].Cause)
	require.Equal(t, since, n.Devices[0].Since)
	require.Contains(t, n.Devices[0].Exclusion, "has been quarantined since 2026-11-29 09:00:00 UTC")
	require.Empty(t, n.Devices[1].Exclusion)
	require.Len(t, n.States, 2)
}

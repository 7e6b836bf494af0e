package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const gpu0, gpu1, gpu2 = "0000:04:00.0", "0000:0b:00.0", "0000:12:00.0"

func offeredOf(t *testing.T, unit *oci.Config) (ids []string) {
	t.Helper()
	inv, err := gpu.Discover(hosttest.ManyGPUs(t, 3))
	require.NoError(t, err)
	for _, g := range offered(inv.GPUsOf(gpu.AMD), unit) {
		ids = append(ids, g.Address())
	}
	return ids
}

func TestUnitOffersItsOwnGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		gpus, want []string
	}{
		"one":       {[]string{gpu1}, []string{gpu1}},
		"some":      {[]string{gpu2, gpu0}, []string{gpu0, gpu2}},
		"none":      {nil, nil},
		"another's": {[]string{"0000:99:00.0"}, nil},
	} {
		var unit oci.Config
		for _, g := range c.gpus {
			unit.GPUs = append(unit.GPUs, oci.GPU{Name: g})
		}
		require.Equal(t, c.want, offeredOf(t, &unit), name)
	}
	require.Len(t, offeredOf(t, nil), 3, "no unit")
}

// A quarantine has a cause in a word and a time, which a taint can carry.
func TestQuarantineHasACauseAndATime(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	since := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{At: since, Policy: quarantine.Auto, GPUs: []quarantine.GPU{
		{Ref: quarantine.Ref{Name: gpu0}, State: quarantine.Quarantined, QuarantinedBy: quarantine.ByHealth, Since: since, QuarantinedSince: &since, Fault: &health.Fault{Kind: health.LinksDown}},
		{Ref: quarantine.Ref{Name: gpu1}, State: quarantine.InService, Since: since}}}))
	m, err := Look(r, "", time.Now, Machine{})
	require.NoError(t, err)
	require.Equal(t, "links_down", m.Devices[0].Cause)
	require.Equal(t, since, m.Devices[0].Since)
	require.Contains(t, m.Devices[0].Exclusion, "has been quarantined since 2026-11-29 09:00:00 UTC")
	require.Empty(t, m.Devices[1].Exclusion)
	require.Len(t, m.Excluded(), 1)
}

package gpuhealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const own = "/run/gpus.json"

func TestCurrentStateIsTheOwnersRecord(t *testing.T) {
	r := hosttest.Root(t)
	write := func(at time.Time, n int) {
		require.NoError(t, api.File(own).Write(r, api.Report{Time: at, GPUs: gpus(n, nil)}))
	}
	_, err := Current(r, own, hosttest.Now)
	require.EqualError(t, err, "the GPUs were not read yet")
	write(hosttest.Now, 2)
	report, err := Current(r, own, hosttest.Now)
	require.NoError(t, err)
	require.Len(t, report.GPUs, 2)
	write(hosttest.Now.Add(-api.Stale-time.Second), 2)
	_, err = Current(r, own, hosttest.Now)
	require.EqualError(t, err, "the last reading of the GPUs is of 2026-01-02 03:03:34 UTC")
	_, err = ReadSeen(r, own, hosttest.Now)
	require.ErrorContains(t, err, "the last reading of the GPUs is of ")
}

func TestCurrentStateHasLeasesAndQuarantine(t *testing.T) {
	r := hosttest.Root(t)
	all := gpus(2, nil)
	require.NoError(t, api.File(own).Write(r, api.Report{Time: hosttest.Now, GPUs: all}))
	require.NoError(t, pool.LeaseFile.Write(r, pool.Report{At: hosttest.Now, GPUs: []pool.ReportedLease{
		{Name: all[1].PCI, Lease: pool.Lease{Held: true, Holder: pool.Holder{Container: "4f1c"}}}}}))
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{GPUs: []quarantine.GPU{
		{Ref: quarantine.Ref{Name: all[0].PCI}, State: quarantine.Quarantined, Reason: "hangs", QuarantinedBy: quarantine.ByHealth, QuarantinedSince: new(hosttest.Now)}}}))
	report, err := Current(r, own, hosttest.Now)
	require.NoError(t, err)
	require.Equal(t, "hangs", report.GPUs[0].Service.Why)
	require.Nil(t, report.GPUs[0].Lease)
	require.Equal(t, "4f1c", report.GPUs[1].Lease.Container)
	require.False(t, report.GPUs[1].Excluded())
}

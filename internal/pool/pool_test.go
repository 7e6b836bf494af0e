package pool

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

var (
	at   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one  = gpu.Slot{Index: 1, PCI: "0000:03:00.0", Partition: 1}
	gone = gpu.MissingSlot("0000:43:00.0")

	unused = gpu.MissingSlot("0000:83:00.0")
)

func report() Report {
	return NewReport(at, []gpu.Slot{one, gone, unused}, []lease.State{
		{GPU: "0000:03:00.0-1", Held: true, Kind: lease.Task, Container: "4f1c", Since: at.Add(-time.Hour), PID: 7},
		{GPU: "0000:43:00.0", Kind: lease.Pod, Container: "team-a/train-0/main", Since: at.Add(-2 * time.Hour), PID: 8},
		{GPU: "0000:83:00.0"},
	}, lease.Counters{Granted: 2, HeldMS: 1500}, func(address string) *Clocks {
		if address != one.Address() {
			return nil
		}
		return &Clocks{Level: fixedclocks.Standard, Container: "4f1c", Since: at}
	})
}

// The exporter of another version reads the report.
func TestReportKeepsItsKeys(t *testing.T) {
	data, err := json.Marshal(report())
	require.NoError(t, err)
	require.JSONEq(t, `{"at":"2026-01-02T03:04:05Z","gpus":[
		{"name":"0000:03:00.0-1","index":1,"pci":"0000:03:00.0","held":true,"kind":"task","container":"4f1c",
		 "since":"2026-01-02T02:04:05Z","pid":7,
		 "clocks":{"level":"profile_standard","container":"4f1c","since":"2026-01-02T03:04:05Z"}},
		{"name":"0000:43:00.0","held":false,"last":{"kind":"pod","container":"main","namespace":"team-a","pod":"train-0",
		 "since":"2026-01-02T01:04:05Z"}},
		{"name":"0000:83:00.0","held":false}],
		"since_boot":{"granted":2,"refused_busy":0,"refused_impossible":0,"held_seconds":1.5}}`, string(data))
}

// Only the unit itself may show processes, and everybody gets the level of the clocks alone.
func TestViewShowsTheLeaseAndTheService(t *testing.T) {
	data, err := json.Marshal(report())
	require.NoError(t, err)
	var read Report
	require.NoError(t, json.Unmarshal(data, &read))
	records := Records{Leases: &read, Service: &quarantine.Record{GPUs: []quarantine.GPU{
		{Ref: quarantine.Ref{Name: "0000:03:00.0-1"}, State: quarantine.Quarantined, QuarantinedBy: quarantine.ByHand, Reason: "a fan", Since: at},
	}}}
	view := records.Of(one, at.Add(time.Minute)).View()
	data, err = json.Marshal(view)
	require.NoError(t, err)
	require.JSONEq(t, `{"lease":{"held":true,"kind":"task","container":"4f1c","since":"2026-01-02T02:04:05Z",
		"clocks":"profile_standard"},
		"service":{"state":"quarantined","since":"2026-01-02T03:04:05Z","why":"a fan","by":"hand"}}`, string(data))
	require.True(t, view.Excluded())
	require.Equal(t, "since 2026-01-02 03:04:05 UTC by hand: a fan", view.Service.Text())

	require.Equal(t, View{Lease: &Lease{}}, records.Of(unused, at).View())
	require.Nil(t, records.Of(one, at.Add(StaleLeases)).View().Lease, "an old report is not shown")
	require.Equal(t, View{}, Records{}.Of(one, at).View())
	require.False(t, View{}.Excluded())
}

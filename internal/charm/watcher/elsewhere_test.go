package watcher

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/pool/admission"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
)

// openIn has the exporter tell that containers have the first GPU open.
func openIn(t *testing.T, u *Unit, containers ...string) {
	t.Helper()
	watchedBy(t, u)
	resp, err := http.Get(u.ExporterURL)
	require.NoError(t, err)
	defer resp.Body.Close()
	var report api.Report
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&report))
	report.GPUs[0].Users = []api.User{}
	for _, c := range containers {
		report.GPUs[0].Users = append(report.GPUs[0].Users, api.User{Container: c, Processes: 1})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(report) }))
	t.Cleanup(s.Close)
	u.ExporterURL = s.URL
}

// A task can give an open node away: its lease ends with it, the other's use does not.
func TestGPUThatAContainerHasOpenWithoutALeaseIsGivenToNone(t *testing.T) {
	const holder, other = "4f1c0000-0000-4000-8000-000000000001", "4f1c0000-0000-4000-8000-000000000002"
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	first := leasedName(t, u, 0)
	open := func() []admission.Quarantined {
		f, _ := admission.Decode([]byte(withheldNow(t, u.Host.Root)))
		return f.GPUs
	}
	want := []admission.Quarantined{{Name: first, Reason: "is open in container " + other + ", which has not leased it (fly containers shows its build)"}}
	watched := func(containers ...string) {
		openIn(t, u, containers...)
		watched(t, u)
		u.after(15 * time.Second)
	}

	watched("") // no container, such as a person's tool
	require.Empty(t, open())
	watched("c0ffee123456")
	require.Empty(t, open(), "another engine's")
	taken(t, u, holder, 4711, 0, lease.Want{Count: 1, Of: []int{0}})
	watched(holder)
	require.Empty(t, open())
	watched(holder, other)
	require.Equal(t, want, open(), "before the lease ends, so that nobody gets the GPU then")
	require.NoError(t, u.Host.Remove("/proc/4711/stat"))
	watched(other)
	require.Equal(t, want, open())
	require.NoError(t, (&Unit{Host: u.Host}).changeService(func(r quarantine.Record) (quarantine.Record, error) { return r, nil }))
	require.Equal(t, want, open(), "a person's change leaves it")
	watched()
	require.Empty(t, open())
}

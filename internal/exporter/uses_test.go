package exporter

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const busyTask = "eb2a4fe8-e932-49c4-b519-4f1da1901416"

// usedBy has reports of users and leases beside a host's GPUs: a task has the second
// one, or the only one, and a lease is in doubt on the last.
func usedBy(t *testing.T, r host.Root) *collector {
	t.Helper()
	devices, _, err := monitor.All(r)()
	require.NoError(t, err)
	used := usage.Result{At: hosttest.Now.Add(-4 * time.Second)}
	leases := pool.Report{At: hosttest.Now}
	since := hosttest.Now.Add(-12 * time.Minute)
	for i, d := range devices {
		u := usage.Used{Slot: d.Stored(), Rows: []usage.Row{}}
		l := pool.ReportedLease{Name: d.Address()}
		switch {
		case i == 1 || len(devices) == 1:
			u.Rows = []usage.Row{
				{Container: "", Processes: 1, Memory: []usage.Amount{{Name: "vram", Value: 4096}, {Name: "cpu", Value: 0}}},
				{Container: busyTask, Processes: 2, Memory: []usage.Amount{{Name: "vram", Value: 3 << 30}, {Name: "gtt", Value: 2 << 20}, {Name: "kfd", Value: 2 << 30}},
					Engines: []usage.Amount{{Name: "dma", Value: 2.5}, {Name: "gfx", Value: 3723.04}},
					Busy:    []usage.Amount{{Name: "dma", Value: 0}, {Name: "gfx", Value: .8333333}}, Units: []usage.Amount{{Value: 104}}},
				{Container: "gone", Engines: []usage.Amount{{Name: "gfx", Value: 1}}},
			}
			u.Processes = []usage.Process{{PID: 4242, Name: "python3", Container: busyTask, Memory: 2 << 30},
				{PID: 4250, Name: "<i>rocprof", Container: busyTask, Memory: 1 << 30}, {PID: 812, Name: "Xorg", Screen: true, Memory: 4096}}
			l.Held, l.Container, l.Since = true, busyTask, &since
		case i == len(devices)-1:
			l.Held, l.Doubt = true, "its record is damaged"
		}
		used.Devices, leases.GPUs = append(used.Devices, u), append(leases.GPUs, l)
	}
	for file, v := range map[string]any{"/run/usage.json": used, "/run/leases.json": leases} {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		hosttest.Put(t, r, file, string(data))
	}
	c := newCollector(r, monitor.All(r), monitor.Options{Usage: true, UsageInterval: time.Minute, UsageReport: "/run/usage.json", Leases: "/run/leases.json"})
	c.Unit, c.Links.Explain = "rocm-worker/0", "juju run rocm-worker/0 explain-error code="
	return c
}

// insideMain is a page without what all have in common.
func insideMain(t *testing.T, page string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page, "</style>\n")
	text, _, ok := strings.Cut(rest, "<script>")
	require.True(t, ok)
	return text
}

func TestUsersAndPartitionsAreInTheAPIAndOnThePage(t *testing.T) {
	for _, name := range []string{"amd", "mi210x4", "mi300x-cpx"} { // the last has nine
		t.Run(name, func(t *testing.T) {
			c := usedBy(t, hosttest.Host(t, name))
			hosttest.Golden(t, "testdata/"+name+".json", c.get(t, "/api/v1/gpus").Body.String())
			hosttest.Golden(t, "testdata/"+name+".html", insideMain(t, c.get(t, "/").Body.String()))
		})
	}
}

// Not known is not the same as no one.
func TestUsersWithoutAScanAreNull(t *testing.T) {
	r := hosttest.Host(t, "amd")
	c := newTestCollector(r, monitor.All(r))
	api := c.get(t, "/api/v1/gpus").Body.String()
	require.Contains(t, api, `"users_time": null`)
	require.Contains(t, api, `"users": null`)
	require.Contains(t, api, `"lease": null`)
	require.Contains(t, c.get(t, "/").Body.String(), "users not known")
}

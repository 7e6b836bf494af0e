package exporter

import (
	"encoding/json"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// decided is what was decided of a host's GPUs: those in sick hung ten minutes ago, those
// in probation are healthy again since, and a person quarantined those in byHand.
func decided(t *testing.T, r host.Root, sick, probation, byHand []int) quarantine.Record {
	t.Helper()
	devices, _, err := monitor.All(r)()
	require.NoError(t, err)
	l := quarantine.Look{At: hosttest.Now.Add(-20 * time.Minute), Policy: quarantine.Auto}
	for _, d := range devices {
		l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: d.Address(), Index: d.Index, GFX: d.GFX}, Up: true, State: health.Healthy})
	}
	rec := quarantine.Decide(quarantine.Record{}, l)
	is := func(i int, state health.State, faults ...health.Fault) {
		l.GPUs[i].State, l.GPUs[i].Faults = state, faults
	}
	l.At = hosttest.Now.Add(-10 * time.Minute)
	for _, i := range append(sick, probation...) {
		is(i, health.Critical, health.Fault{Kind: health.Hang, Signals: []string{"kernel_log"}})
	}
	rec = quarantine.Decide(rec, l)
	l.At = hosttest.Now.Add(-2 * time.Minute)
	for _, i := range probation {
		is(i, health.Healthy)
	}
	rec = quarantine.Decide(rec, l)
	for _, i := range byHand {
		rec, err = rec.Quarantine(l.GPUs[i].PCI, `noisy <fan> & "riser"`, hosttest.Now.Add(-time.Hour))
		require.NoError(t, err)
	}
	return rec
}

// withService is usedBy, and what was decided of the GPUs.
func withService(t *testing.T, r host.Root, rec quarantine.Record) *collector {
	t.Helper()
	usedBy(t, r) // writes the reports
	data, err := json.Marshal(rec)
	require.NoError(t, err)
	hosttest.Put(t, r, quarantine.File, string(data))
	c := newCollector(r, monitor.All(r), monitor.Options{Usage: true, UsageInterval: time.Minute, UsageReport: "/run/usage.json",
		Leases: "/run/leases.json", Service: quarantine.File})
	c.Unit, c.Links.Explain = "rocm-worker/0", "juju run rocm-worker/0 explain-error code="
	return c
}

func TestQuarantinedGPUsAreInTheAPIAndOnThePage(t *testing.T) {
	for name, out := range map[string][3][]int{"mi210x4": {{1}, {2}, {0}}, "mi300x-cpx": {{0, 1, 2}, {8}, {}}} { // the last has nine
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, name)
			c := withService(t, r, decided(t, r, out[0], out[1], out[2]))
			hosttest.Golden(t, "testdata/"+name+"-service.json", c.get(t, "/api/v1/gpus").Body.String())
			hosttest.Golden(t, "testdata/"+name+"-service.html", insideMain(t, c.get(t, "/").Body.String()))
		})
	}
}

// Not decided is not the same as in service, and a GPU that is in service looks as ever.
func TestOnlyQuarantinedGPUsHaveARemark(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	without := usedBy(t, r)
	require.Contains(t, without.get(t, "/api/v1/gpus").Body.String(), `"service": null`)
	c := withService(t, r, decided(t, r, nil, nil, nil))
	require.Contains(t, c.get(t, "/api/v1/gpus").Body.String(), `"state": "in_service"`)
	gpus := func(c *collector) string {
		_, text, ok := strings.Cut(c.get(t, "/").Body.String(), "<main")
		require.True(t, ok)
		return text
	}
	require.Equal(t, gpus(without), gpus(c))
	require.NotContains(t, without.get(t, "/").Body.String(), "quarantined</li>", "not known is not 0")
	require.Contains(t, c.get(t, "/").Body.String(), "⊘ 0 quarantined</li>")
}

func TestQuarantinedGPUsComeFirstWithinOneHealth(t *testing.T) {
	r := hosttest.Host(t, "mi210x4") // with a GPU 3 that is critical, and in service here
	text := html.UnescapeString(withService(t, r, decided(t, r, []int{2}, nil, nil)).get(t, "/").Body.String())
	var order []string
	for _, part := range strings.Split(text, "<h2>")[1:] {
		name, _, _ := strings.Cut(part, "<")
		order = append(order, name)
	}
	require.Equal(t, []string{"GPU 3", "GPU 2", "GPU 0", "GPU 1"}, order)
	require.Contains(t, text, `<a href="?show=quarantined">⊘ 1 quarantined</a>`)
}

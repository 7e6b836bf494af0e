package series

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestFamiliesAreNamedByTheRules(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Families {
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.Help, f.Name)
		require.False(t, seen[f.Name], f.Name)
		seen[f.Name] = true
		require.Equal(t, len(f.Labels), len(slices.Compact(slices.Sorted(slices.Values(f.Labels)))), f.Name)
		if f.GPU {
			for _, name := range []string{"gpu", "pci_bus_id", "uuid"} {
				require.NotContains(t, f.Labels, name, f.Name)
			}
		}
		if f.Counter {
			require.True(t, strings.HasSuffix(f.Name, "_total"), "OpenMetrics wants so: %s", f.Name)
		}
	}
}

// pedantic gathers as a registry would that checks all that there is to check: names,
// types, and series that are there twice.
func pedantic(t testing.TB, g *Gatherer) []*dto.MetricFamily {
	t.Helper()
	got, done, err := g.Gather()
	require.NoError(t, err)
	defer done()
	checked, err := prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return got, nil })}.Gather()
	require.NoError(t, err)
	require.Equal(t, len(got), len(checked))
	for i, f := range checked {
		require.Equal(t, f.GetName(), got[i].GetName(), "they are in order")
	}
	return checked
}

func TestEveryFamilyIsShownAndPassesLint(t *testing.T) {
	s, _ := full(2)
	for i := range s.GPUs {
		s.GPUs[i].Slot.Partition = i
	}
	g := showing(&s)
	shown := map[string]bool{}
	for _, f := range pedantic(t, g) {
		shown[f.GetName()] = true
	}
	for _, f := range Families {
		require.True(t, shown[f.Name], "nothing shows %s", f.Name)
	}
	problems, err := promlint.New(strings.NewReader(textOf(t, g))).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		switch { // names that others chose
		case p.Metric == "rocm_memory_total":
			require.Equal(t, `non-counter metrics should not have "_total" suffix`, p.Text)
		case strings.HasPrefix(p.Metric, "DCGM_"):
			require.Equal(t, `label names should be written in 'snake_case' not 'camelCase'`, p.Text)
		default:
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestSeriesAreUniqueOnEveryFixtureHost(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		r := hosttest.Host(t, name)
		m := monitor.New(r, monitor.Of(r, gpu.AMD), monitor.Options{})
		pedantic(t, New(m.Snapshot, Options{Version: "v1.2.3", Page: "http://10.0.0.11:9401/", DCGM: true}))
	}
	r := hosttest.ManyGPUs(t, 16)
	pedantic(t, New(monitor.New(r, monitor.Of(r, gpu.AMD), monitor.Options{}).Snapshot, Options{Version: "v1.2.3", Page: "http://10.0.0.11:9401/", DCGM: true}))
}

// A new field of a reading must not be forgotten here.
func TestEveryNumberOfAStateIsShown(t *testing.T) {
	s, f := full(1)
	s.GPUs[0].Socket = amdgpu.Number{}
	values := map[float64]bool{}
	for line := range strings.Lines(textOf(t, showing(&s))) {
		if line[0] == '#' {
			continue
		}
		line = strings.TrimSpace(line)
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		require.NoError(t, err, line)
		values[v] = true
		for _, label := range strings.Split(line, `"`) { // instances and partitions are labels
			if n, err := strconv.ParseFloat(label, 64); err == nil {
				values[n] = true
			}
		}
	}
	var hidden []string
	for _, path := range slices.Sorted(maps.Keys(f.numbers)) {
		if v := f.numbers[path]; !values[v] {
			hidden = append(hidden, path)
		}
	}
	require.Equal(t, []string{
		"gpu0.Hangs.InDay", "gpu0.Hangs.RingResets", // health's
		"gpu0.State.PCIe.ReplayRate",        // health's
		"gpu0.State.RAS.Errors.Correctable", // by block
		"gpu0.State.RAS.Errors.Deferred",
		"gpu0.State.Temperature.Critical", // among all sensors
		"gpu0.State.Temperature.Emergency",
		"gpu0.State.Throttling.ThermalShare", // health's
	}, hidden)
}

func TestNamesMatchCountersAndGauges(t *testing.T) {
	s, _ := full(1)
	counters := map[string]bool{}
	for _, f := range Families {
		counters[f.Name] = f.Counter
	}
	for _, f := range pedantic(t, showing(&s)) {
		for _, m := range f.GetMetric() {
			require.Equal(t, counters[f.GetName()], f.GetType() == dto.MetricType_COUNTER)
			require.Equal(t, counters[f.GetName()], m.Counter != nil)
			require.Equal(t, !counters[f.GetName()], m.Gauge != nil)
		}
	}
}

// Each container is a series, so its energy is shown for minutes after its end only.
func TestEnergyOfATaskIsShownForAWhile(t *testing.T) {
	s, _ := full(1)
	text := textOf(t, showing(&s))
	require.Contains(t, text, `concourse_worker_task_energy_joules{container="c",estimate="true"} 7200`)
	require.Equal(t, 1, strings.Count(text, "\nconcourse_worker_task_energy_joules{"))
}

// The explanation of an error names metrics that users can query.
func TestMetricsOfTheErrorsAreExported(t *testing.T) {
	exported, n := map[string]bool{}, 0
	for _, f := range Families {
		exported[f.Name] = true
	}
	for _, e := range amd.ErrorCodes("dispatch") {
		for _, s := range e.Detected {
			for _, name := range regexp.MustCompile(`\brocm_\w+`).FindAllString(s.What, -1) {
				n++
				require.True(t, exported[name], "%s: %s", e.Name, name)
			}
		}
	}
	require.Greater(t, n, 10)
}

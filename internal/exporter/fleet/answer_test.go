package fleet

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const oneGPU = `{"index":0,"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"}}`

func TestAnswerOfAnotherProgramIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, err string }{
		"not JSON":         {"<html>", "not a list of GPUs"},
		"another JSON":     {`{"data":[]}`, "not a list of GPUs"},
		"null":             {`{"gpus":null}`, "not a list of GPUs"},
		"more after":       {`{"gpus":[]} {}`, "not a list of GPUs"},
		"no address":       {`{"gpus":[{"health":{"state":"healthy"}}]}`, "GPU 0 has no PCI address"},
		"a link":           {`{"gpus":[{"pci_bus_id":"x\" onclick=","health":{"state":"healthy"}}]}`, "no PCI address"},
		"no health":        {`{"gpus":[{"pci_bus_id":"0000:03:00.0"}]}`, "an unknown state of health"},
		"negative":         {`{"gpus":[{"index":-1,"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"}}]}`, "an impossible number"},
		"a second one":     {`{"gpus":[` + oneGPU + `,{"index":5000}]}`, "GPU 1 has an impossible number"},
		"a text as number": {`{"gpus":[{"index":"0"}]}`, "not a list of GPUs"},
		"too many":         {`{"gpus":[` + strings.TrimSuffix(strings.Repeat(oneGPU+",", maxGPUs+1), ",") + `]}`, "more than 1024 GPUs"},
		"too long":         {`{"gpus":[` + strings.Repeat(" ", maxAnswer) + `]}`, "more than 8388608 bytes"},
		"year 9999":        {`{"gpus":[{"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"},"service":{"state":"quarantined","since":"9999-01-01T00:00:00Z"}}]}`, "unknown state of service"},
	} {
		gpus, err := decode(strings.NewReader(tc.text))
		require.ErrorContains(t, err, tc.err, name)
		require.Nil(t, gpus, name)
	}
}

// The exporter's own types make the answer, so a renamed key fails here.
func TestAnswerOfTheExporterIsRead(t *testing.T) {
	since, ratio, watts := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC), 1.5, 210.
	status := api.Status{Index: 3, Vendor: "amd", Name: "MI300X\x1b[2J", PCI: "0000:03:00.0", GFX: "gfx942", Partition: 1, Partitions: 8,
		Health: api.Health{State: health.Critical, Reason: "hangs"}, Activity: &ratio, Power: &watts, MemoryTotal: &watts,
		Users: []api.User{{Container: "c", Processes: 2}},
		View: pool.View{Lease: &pool.Lease{Held: true, Holder: pool.Holder{Container: "c", Title: "ada: pytest", Since: &since}},
			Service: &pool.Service{State: quarantine.Quarantined, Since: since, Why: "hangs", By: quarantine.ByHealth}}}
	data, err := json.Marshal(api.Report{GPUs: []api.Status{status}})
	require.NoError(t, err)
	gpus, err := decode(strings.NewReader(string(data)))
	require.NoError(t, err)
	one := 1.
	require.Equal(t, []gpu{{Index: 3, Vendor: "amd", Name: "MI300X?[2J", PCI: "0000:03:00.0", GFX: "gfx942", Partition: 1, Partitions: 8,
		Health: judgment{health.Critical, "hangs"}, Activity: &one, Power: &watts, MemoryTotal: &watts,
		Users: []user{{"c", 2}}, View: status.View}}, gpus)
}

// Another program may answer, so the page shows no other actor, and no number or text that it
// can't show.
func TestValuesOfAnotherProgramAreReplaced(t *testing.T) {
	of := func(member string) gpu {
		gpus, err := decode(strings.NewReader(`{"gpus":[{"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"},` + member + `}]}`))
		require.NoError(t, err, member)
		require.Len(t, gpus, 1)
		return gpus[0]
	}
	for by, want := range map[string]quarantine.Actor{"health": quarantine.ByHealth, "hand": quarantine.ByHand, "y": "", "": ""} {
		require.Equal(t, want, of(`"service":{"state":"in_service","since":"2026-08-01T12:00:00Z","by":"`+by+`"}`).Service.By, by)
	}
	for watts, want := range map[string]float64{"-1": 0, "0": 0, "99999": 99999, "100001": 1e5} {
		require.InDelta(t, want, *of(`"power_watts":` + watts).Power, 0, watts)
	}
	for ratio, want := range map[string]float64{"-0.5": 0, "0.5": .5, "1.5": 1} {
		require.InDelta(t, want, *of(`"activity_ratio":` + ratio).Activity, 0, ratio)
	}
	require.InDelta(t, 1<<53, *of(`"memory_used_bytes":9007199254740992`).MemoryUsed, 0)
	require.Nil(t, of(`"memory_used_bytes":9007199254740994`).MemoryUsed)
	require.Nil(t, of(`"memory_used_bytes":-9007199254740994`).MemoryUsed)
	require.Equal(t, 1, of(`"partitions":0`).Partitions)
	require.Equal(t, strings.Repeat("a", maxName)+"...", of(`"name":"`+strings.Repeat("a", 500)+`"`).Name)
	lease := of(`"lease":{"held":true,"kind":"task","clocks":"fixed","last":{"container":"a"},"container":"c\u0000"}`).Lease
	require.Equal(t, pool.Lease{Held: true, Holder: pool.Holder{Container: "c?"}}, *lease)
}

func TestNumbersOfAGPUHaveLimits(t *testing.T) {
	for member, valid := range map[string]bool{
		`"index":1023`: true, `"index":1024`: false, `"index":-1`: false,
		`"partition":1023`: true, `"partition":1024`: false, `"partition":-1`: false,
		`"partitions":1024`: true, `"partitions":1025`: false, `"partitions":-1`: false,
		`"lease":{"since":"1999-12-31T23:59:59Z"}`: false, `"lease":{"since":"2000-01-01T00:00:00Z"}`: true,
		`"lease":{"since":"8999-12-31T23:59:59Z"}`: true, `"lease":{"since":"9000-01-01T00:00:00Z"}`: false,
	} {
		_, err := decode(strings.NewReader(`{"gpus":[{"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"},` + member + `}]}`))
		require.Equal(t, valid, err == nil, member)
	}
}

// Whatever a worker answers can be written as JSON and as a page.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"gpus":[` + oneGPU + `]}`))
	f.Add([]byte(`{"gpus":[{"index":1,"pci_bus_id":"0000:03:00.0","partitions":8,"health":{"state":"critical","reason":"x"},"power_watts":1e308,"activity_ratio":-4,` +
		`"users":[{"container":"\u0000","processes":1}],"lease":{"held":true,"pod":"<b>","since":"2026-01-01T00:00:00Z"},"service":{"state":"on_probation","since":"2026-01-01T00:00:00+14:00","why":"x","by":"y"}}]}`))
	f.Add([]byte(`{"gpus":[{"pci_bus_id":"0000:03:00.0","health":{"state":"healthy"},"lease":{"held":false,"last":{"container":"\u0000","since":"9999-12-31T23:59:59-23:59"}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		gpus, err := decode(strings.NewReader(string(data)))
		if err != nil {
			require.Nil(t, gpus)
			return
		}
		require.LessOrEqual(t, len(gpus), maxGPUs)
		r := reportOf(gpus)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NotContains(t, string(text), "\\u0000")
		for _, g := range gpus {
			for _, s := range []string{g.Name, g.Vendor, g.GFX, g.Health.Reason} {
				require.NotContains(t, s, "\x1b")
				require.False(t, strings.ContainsFunc(s, unicode.IsControl))
			}
		}
		require.Contains(t, pageOf(t, r), "</html>")
	})
}

func TestOnlyWaitingStepsAreReadFromMetrics(t *testing.T) {
	text, err := os.ReadFile("../../../tests/prometheus/testdata/concourse-8.2.5.prom")
	require.NoError(t, err)
	all, err := decodeWaiting(strings.NewReader(string(text)))
	require.NoError(t, err)
	require.Equal(t, map[group]int{{Team: "main", Platform: "linux", Type: "task", Tags: "gpu_compute-runtime=rocm"}: 1}, all)
	for name, text := range map[string]string{"a broken line": waitingMetric + "{x", "too many": strings.Repeat(waitingMetric+"{} 1\n", maxGroups+1),
		"a long line": strings.Repeat("x", maxLine+1)} {
		_, err := decodeWaiting(strings.NewReader(text))
		require.Error(t, err, name)
	}
}

func FuzzWaiting(f *testing.F) {
	f.Add([]byte(waitingMetric + `{platform="linux",teamId="1",teamName="main",type="task",workerTags="a_b"} 3` + "\n"))
	f.Add([]byte(waitingMetric + "{} NaN\n" + waitingMetric + "{} +Inf\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := decodeWaiting(strings.NewReader(string(data)))
		if err != nil {
			require.Nil(t, all)
		}
		for _, n := range all {
			require.Positive(t, n)
		}
	})
}

// allocated returns the bytes that a function allocates, in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Root of one worker chooses its answer. The bound includes the answer and copies of it while
// the buffer grows.
func TestMemoryOfAHostileAnswerIsBounded(t *testing.T) {
	flood := func(head, element, tail string) string {
		return head + strings.Repeat(element+",", (maxAnswer-1000)/(len(element)+1)) + element + tail
	}
	valid := strings.TrimSuffix(oneGPU, "}")
	for name, text := range map[string]string{
		"empty GPUs":     flood(`{"gpus":[`, "{}", "]}"),
		"valid GPUs":     flood(`{"gpus":[`, oneGPU, "]}"),
		"users":          flood(`{"gpus":[`+valid+`,"users":[`, "{}", "]}]}"),
		"a long name":    `{"gpus":[` + valid + `,"name":"` + strings.Repeat("\\u0000", (maxAnswer-1000)/6) + `"}]}`,
		"white space":    `{"gpus":[` + valid + `,"name":"` + strings.Repeat(" ", maxAnswer-1000) + `"}]}`,
		"other members":  flood(`{"x":[`, "[]", `],"gpus":[]}`),
		"many members":   flood(`{"gpus":[`+valid, `"x":0`, "}]}"),
		"nested":         strings.Repeat(`{"x":[`, maxAnswer/6),
		"twice the list": flood(`{"gpus":[],`, `"gpus":[]`, "}"),
	} {
		most := uint64(10 * maxAnswer)
		got := allocated(func() {
			gpus, err := decode(strings.NewReader(text))
			require.LessOrEqual(t, len(gpus), maxGPUs)
			if len(gpus) == 0 && name != "other members" {
				require.Error(t, err, name)
			}
		})
		require.Less(t, got, most, name)
	}
}

package top

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// handle returns a container's name as Concourse makes them.
func handle(n int) string { return fmt.Sprintf("eb2a4fe8-e932-49c4-b519-%012d", n) }

// status returns a healthy MI300X with values that differ by its index.
func status(i int) api.Status {
	s := api.Status{Index: i, Vendor: "amd", Name: "AMD Instinct MI300X OAM", GFX: "gfx942", Up: true, Partitions: 1,
		UUID: fmt.Sprintf("GPU-%016x", 0x1d00c4a87e3f9001+i), PCI: fmt.Sprintf("0000:%02x:00.0", 4+3*i%250),
		VBIOS: "113-M3000100-103", Driver: "6.14.0-32-generic", Sensor: "junction",
		Temperature: new(float64(40 + 7*i%50)), TemperatureLimit: new(100.0),
		Power: new(float64(138 + 97*i%600)), PowerCap: new(750.0),
		MemoryUsed: new(float64(31*i%192) * (1 << 30)), MemoryTotal: new(192.0 * (1 << 30)),
		Activity: new(float64(37*i%101) / 100), Users: []api.User{}}
	s.Health = api.Health{State: health.Healthy, Score: new(100.0), Reason: "nothing wrong with errors and temperature", Codes: []int{}}
	s.Lease = &pool.Lease{}
	if i%3 == 1 {
		since := noon.Add(-time.Duration(i) * time.Minute)
		s.Lease = &pool.Lease{Held: true, Holder: pool.Holder{Container: handle(i), Since: &since}}
		s.Users = []api.User{{Container: handle(i), Processes: 2, Memory: map[string]float64{"vram": 3 << 30, "kfd": 2 << 30},
			Engines: map[string]float64{"gfx": 3723}, Busy: map[string]float64{"gfx": .83}, Units: new(104.0)}}
		s.Processes = []usage.Process{{PID: 41240 + i, Name: "python3", Container: handle(i), Memory: 2.9 * (1 << 30)}}
		if i == 4 {
			s.Processes = append(s.Processes, usage.Process{PID: 980, Name: "rocprofv3", Container: handle(i), Memory: 96 << 20})
		}
	}
	return s
}

// withHistory returns n GPUs with the last 15 minutes, a runner's job on GPU 0 and a desktop on GPU 1.
func withHistory(n int) api.Report {
	r := reportOf(n)
	for i := range r.GPUs {
		s := &r.GPUs[i]
		wave := func(most float64) (out []*float64) {
			for k := range 90 {
				out = append(out, new(most*(.5+.5*math.Sin(float64(k+10*i)/9))))
			}
			out[30], out[31], out[32] = nil, nil, nil // the machine slept
			return out
		}
		s.History = &api.History{Interval: 10, Last: noon, Activity: wave(1), Memory: wave(*s.MemoryTotal), Power: wave(700), Temperature: wave(90)}
		s.Activity, s.MemoryUsed, s.Power, s.Temperature = s.History.Activity[89], s.History.Memory[89], s.History.Power[89], s.History.Temperature[89]
	}
	const run = "run-4f1c0a2b91d3"
	since := noon.Add(-7 * time.Minute)
	r.GPUs[0].Lease = &pool.Lease{Held: true, Holder: pool.Holder{Container: run, Title: "ada/llm: test #118", Since: &since}}
	r.GPUs[0].Users = []api.User{{Container: run, Processes: 2}}
	r.GPUs[0].Processes = []usage.Process{{PID: 4242, Name: "llama-server", Container: run, Memory: 58 * (1 << 30)}}
	if n > 1 {
		r.GPUs[1].Lease, r.GPUs[1].Users = nil, []api.User{{Processes: 2}}
		r.GPUs[1].Processes = []usage.Process{{PID: 1234567, Name: "Xorg", Screen: true, Memory: 1 << 30}, {PID: 812, Host: true, Memory: 1 << 29},
			{Name: "other processes", Memory: 1 << 28}}
	}
	return r
}

// reportOf returns n GPUs. With a few more than one, GPU 2 is hot and full, GPU 3 is critical and
// GPU 5 is quarantined.
func reportOf(n int) api.Report {
	r := api.Report{Unit: "rocm-worker/0", Host: "gpu-b02", Time: noon}
	for i := range n {
		s := status(i)
		switch i {
		case 2:
			s.Temperature, s.Power = new(101.0), new(748.0)
			s.MemoryUsed, s.Activity = new(191.0*(1<<30)), new(1.0)
		case 3:
			s.Health = api.Health{State: health.Critical, Score: new(30.0), Reason: "1 uncorrectable error; 1 bad memory page", Codes: []int{1, 7}}
		case 5:
			s.Service = &pool.Service{State: quarantine.Quarantined, Since: noon.Add(-time.Hour), Why: "noisy fan", By: quarantine.ByHand}
		}
		r.GPUs = append(r.GPUs, s)
	}
	return r
}

// dividedReport returns n GPUs with 8 partitions each. Only the first partition has sensors.
func dividedReport(n int) api.Report {
	r := api.Report{Unit: "rocm-worker/0", Host: "gpu-b02", Time: noon}
	for i := range n {
		whole := status(i)
		for p := range 8 {
			s := status(8*i + p)
			s.PCI, s.Partition, s.Partitions, s.ComputePartition, s.MemoryPartition = whole.PCI, p, 8, "CPX", "NPS1"
			s.Temperature, s.Power, s.MemoryUsed, s.MemoryTotal = nil, nil, nil, nil
			if p == 0 {
				s.Temperature, s.Power, s.MemoryUsed, s.MemoryTotal = whole.Temperature, whole.Power, whole.MemoryUsed, whole.MemoryTotal
				s.SocketActivity = new(.5)
			}
			if (i+p)%4 != 0 {
				s.Lease, s.Users = &pool.Lease{}, nil
			}
			r.GPUs = append(r.GPUs, s)
		}
	}
	return r
}

// mixedReport returns GPUs of two vendors, one of them asleep, with several users.
func mixedReport() api.Report {
	r := api.Report{Host: "workstation", Time: noon}
	amd, nvidia, asleep := status(0), status(0), status(1)
	amd.Users = []api.User{{Container: "4be2f10c93d5", Processes: 1}, {Processes: 3}}
	nvidia.Vendor, nvidia.Name, nvidia.PCI = "nvidia", "NVIDIA GeForce RTX 4090", "0000:0a:00.0"
	nvidia.MemoryUsed, nvidia.MemoryTotal, nvidia.PowerCap = new(5.8*(1<<30)), new(24.0*(1<<30)), nil
	asleep.Suspended, asleep.Temperature, asleep.Power, asleep.MemoryUsed, asleep.Activity = true, nil, nil, nil, nil
	asleep.Name, asleep.Lease, asleep.Users, asleep.Health.State = "AMD Radeon RX 7900 XT", nil, nil, ""
	r.GPUs = []api.Status{amd, asleep, nvidia}
	return r
}

// reports lists the machines that are drawn.
func reports(t *testing.T) map[string]api.Report {
	t.Helper()
	hostile, err := gpuhealth.ParseReport([]byte(`{"unit": "\u001b]0;x\u0007", "gpus": [{"name": "\u202e\u0000", "index": 1234567, "pci_bus_id": "\u009b2J",
		"health": {"state": "critical\u001b[31m"}, "temperature_celsius": 1e15, "temperature_limit_celsius": -1, "activity_ratio": -7, "memory_used_bytes": 1e15, "memory_total_bytes": 1,
		"service": {"state": "\u001b[2Jout"}, "users": [{"container": "` + strings.Repeat("a", 250) + `", "processes": 1, "memory_bytes": {"vram": 1e15}}]}, {}]}`))
	require.NoError(t, err)
	return map[string]api.Report{"1 GPU": reportOf(1), "8 GPUs": reportOf(8), "64 GPUs": reportOf(64), "8 partitions": dividedReport(1),
		"64 partitions": dividedReport(8), "8 GPUs with a history": withHistory(8), "two vendors": mixedReport(), "hostile": hostile}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// picture draws a frame twice: with colours, which must only add to the text, and without.
func picture(t *testing.T, f Frame) string {
	t.Helper()
	lines := new(View).Lines(term.Format{}, f)
	for _, l := range lines {
		if f.Width > 0 {
			require.LessOrEqual(t, utf8.RuneCountInString(l), max(f.Width, minWidth), "%q", l)
		}
		require.NotRegexp(t, `[[:cntrl:]]`, l)
	}
	if f.Height > 0 {
		require.LessOrEqual(t, len(lines), f.Height)
	}
	coloured := strings.Join(new(View).Lines(term.Format{Colour: true}, f), "\n")
	require.Equal(t, strings.Join(lines, "\n"), escapes.ReplaceAllString(coloured, ""))
	return strings.Join(lines, "\n") + "\n"
}

func TestTableFitsEachWidth(t *testing.T) {
	for name, r := range reports(t) {
		var all strings.Builder
		for _, width := range []int{80, 120, 200} {
			fmt.Fprintf(&all, "== %d columns\n%s", width, picture(t, Frame{Report: r, Width: width, Height: 24}))
		}
		hosttest.Golden(t, "testdata/"+strings.ReplaceAll(name, " ", "-")+".golden", all.String())
	}
}

// The rows that the table leaves on a terminal show the last 15 minutes.
func TestTableUsesTheHeight(t *testing.T) {
	var all strings.Builder
	for _, size := range [][2]int{{80, 24}, {80, 50}, {132, 43}} {
		for _, gpus := range []int{1, 2, 8} {
			screen := picture(t, Frame{Report: withHistory(gpus), Width: size[0], Height: size[1] - 1})
			fmt.Fprintf(&all, "== %s, %d columns, %d rows\n%s", units.Count(gpus, "GPU"), size[0], size[1], screen)
			require.Greater(t, strings.Count(screen, "\n"), size[1]-2-gpus, "a row more for each GPU does not fit")
		}
	}
	hosttest.Golden(t, "testdata/heights.golden", all.String())
	require.NotContains(t, picture(t, Frame{Report: withHistory(64), Width: 80, Height: 50}), "15 min")
	require.NotContains(t, picture(t, Frame{Report: withHistory(8), Width: 80}), "15 min")
}

// The mean of the points of a column is shown, and a short history begins in the middle.
func TestChartsShowUnknownValuesAsGaps(t *testing.T) {
	values := func(n int, v *float64) (out []*float64) {
		for range n {
			out = append(out, v)
		}
		return out
	}
	for name, c := range map[string]struct {
		chart chart
		want  string
	}{
		"half of the limit":  {chart{values: values(90, new(50.)), limit: new(100.)}, "▄▄▄▄▄▄"},
		"above the limit":    {chart{values: values(90, new(150.)), limit: new(100.)}, "██████"},
		"without a limit":    {chart{values: append(values(45, new(2.)), values(45, new(4.))...)}, "▄▄▄███"},
		"zero is a value":    {chart{values: values(90, new(0.)), limit: new(100.)}, "▁▁▁▁▁▁"},
		"a gap":              {chart{values: append(values(45, nil), values(45, new(4.))...)}, "   ███"},
		"a young exporter":   {chart{values: values(45, new(4.))}, "   ███"},
		"nothing":            {chart{}, ""},
		"only zeros, no cap": {chart{values: values(90, new(0.))}, "▁▁▁▁▁▁"},
		"a mean":             {chart{values: slices.Concat(values(80, nil), values(5, new(8.)), values(5, new(0.))), limit: new(8.)}, "     ▄"},
	} {
		require.Equal(t, c.want, c.chart.draw(6, 2)[1], name)
	}
}

// Without its run's id, a narrow column shows what people call the run.
func TestRunsHaveTheirTitleInANarrowColumn(t *testing.T) {
	require.Contains(t, picture(t, Frame{Report: withHistory(1), Width: 80}), "healthy  ada/llm: tes…\n")
	require.Contains(t, picture(t, Frame{Report: withHistory(1), Width: 132}), "healthy  run-4f1c0a2b91d3 (ada/llm: test #118)  7m")
}

func TestDocumentedScreenIsReal(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/how-to/see-who-uses-a-gpu.md")
	require.NoError(t, err)
	require.Contains(t, string(page), picture(t, Frame{Report: reportOf(5), Width: 80, Height: 24}))
}

func TestEachSizeIsDrawn(t *testing.T) {
	for name, r := range reports(t) {
		for width := 1; width < 240; width += 17 {
			for _, height := range []int{0, 1, 6, 10, 24, 100} {
				for _, late := range []string{"", "the exporter does not answer"} {
					require.NotEmpty(t, picture(t, Frame{Report: r, Width: width, Height: height, Late: late, Age: time.Minute}), name)
				}
			}
		}
	}
}

func TestLateTableShowsItsAgeAndWhy(t *testing.T) {
	screen := picture(t, Frame{Report: reportOf(1), Width: 80, Height: 24, Late: "the exporter answers 500", Age: time.Minute})
	require.Contains(t, screen, "GPUs of rocm-worker/0 on gpu-b02, NOT LIVE: 1m old\n1 GPU: 1 healthy\nthe exporter answers 500\n")
}

func TestLinesThatDoNotFitAreCounted(t *testing.T) {
	r := reportOf(64)
	for i := range 4 {
		r.GPUs[i].Health.State = health.Critical
	}
	screen := picture(t, Frame{Report: r, Width: 80, Height: 10})
	require.Contains(t, screen, "\n3 more warnings: see --once\n")
	require.True(t, strings.HasSuffix(screen, "\n85 more lines: see --once\n"), screen)
	require.NotContains(t, picture(t, Frame{Report: r, Width: 80, Height: 120}), "more lines")
}

// The columns of a live table stay as wide as they were, until the screen has another width.
func TestColumnsDoNotJump(t *testing.T) {
	var v View
	wide := v.Lines(term.Format{}, Frame{Report: reportOf(8), Width: 100, Height: 24})
	require.Equal(t, wide[4], v.Lines(term.Format{}, Frame{Report: reportOf(1), Width: 100, Height: 24})[2])
	require.NotEqual(t, wide[4], v.Lines(term.Format{}, Frame{Report: reportOf(1), Width: 99, Height: 24})[2])
}

func TestTableShownOnceHasAllLines(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"8 GPUs", "8 partitions", "two vendors"} {
		for _, width := range []int{100, 0} {
			fmt.Fprintf(&all, "== %s, %d columns\n%s", name, width, picture(t, Frame{Report: reports(t)[name], Width: width}))
		}
	}
	for _, name := range []string{"mi210x4-service", "mi300x-cpx"} {
		answer, err := os.ReadFile("../../../exporter/testdata/" + name + ".json")
		require.NoError(t, err)
		r, err := gpuhealth.ParseReport(answer)
		require.NoError(t, err)
		fmt.Fprintf(&all, "== %s\n%s", name, picture(t, Frame{Report: r}))
	}
	hosttest.Golden(t, "testdata/once.golden", all.String())
	table, _, _ := strings.Cut(picture(t, Frame{Report: reports(t)["64 partitions"], Width: 80}), "\n\n")
	require.Equal(t, 2+1+8+64, strings.Count(table+"\n", "\n"))
}

//go:build e2e

package page

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// failed makes up the report of a task that hung, of one that failed by itself, and of one
// with a GPU that was hot.
func failed() *verdict.Report {
	r := &verdict.Report{At: now}
	for i, gpu := range []string{"0000:83:00.0", "", "0000:03:00.0"} {
		exit := 1
		record := &taskrecord.Record{GPUs: map[string][]taskrecord.Sample{},
			Head: taskrecord.Head{Handle: fmt.Sprintf("0badcafe-0000-4000-8000-00000000000%d", i), Started: now.Add(-10 * time.Minute)},
			End:  &taskrecord.End{Ended: now.Add(-time.Minute), Ending: taskrecord.Exited, Exit: &exit}}
		if gpu != "" {
			record.Head.GPUs = []taskrecord.GPU{{Name: gpu, Index: i}}
		}
		for s := range 540 {
			at := record.Head.Started.Add(time.Duration(s) * time.Second)
			m := taskrecord.NewSample(at, taskrecord.NumCounters)
			m.Values[taskrecord.CPUUsage], m.Values[taskrecord.MemoryUsed] = int64(s)*900_000, int64(1+s)<<23
			m.Values[taskrecord.DiskFree] = int64(600-s) << 28
			record.Machine = append(record.Machine, m)
			if gpu != "" {
				g := taskrecord.NewSample(at, taskrecord.NumGPUCounters)
				g.Values[taskrecord.Busy] = int64(500 + 490*math.Sin(float64(s)/40))
				g.Values[taskrecord.Power], g.Values[taskrecord.Temperature] = 300_000, int64(600+s/2)
				record.GPUs[gpu] = append(record.GPUs[gpu], g)
			}
		}
		if i == 0 {
			record.Events = []taskrecord.Event{{At: now.Add(-2 * time.Minute), Kind: taskrecord.GPUHang, GPU: gpu}}
		}
		v := verdict.Decide(record)
		r.Add(record, v)
		r.Count(v)
	}
	return r
}

func eachTasks(t *testing.T, b *browser, check func(t *testing.T, name string, v view)) {
	for name, r := range map[string]*verdict.Report{"none": {At: now}, "some": failed()} {
		s := httptest.NewServer(page.Tasks(func() *verdict.Report { return r }, page.Links{}))
		t.Cleanup(s.Close)
		for _, v := range []view{{width: 1440, height: 900}, {width: 1440, height: 900, dark: true}, {width: 390, height: 844}} {
			t.Run(fmt.Sprintf("%s %d dark=%t", name, v.width, v.dark), func(t *testing.T) {
				b.t = t
				b.visit(s.URL, v)
				b.eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
				check(t, name, v)
			})
		}
	}
	b.t = t
}

func TestBrowserShowsFailedTasks(t *testing.T) {
	b := newBrowser(t)
	script := axe(t)
	pictures := os.Getenv("PICTURES") // a folder, to look at them
	eachTasks(t, b, func(t *testing.T, name string, v view) {
		if name == "some" {
			require.Contains(t, b.text(), "(gpu, gpu-hang)")
			require.Contains(t, b.text(), "45.0 Wh (162 kJ)")
		}
		var width int
		b.eval(`document.documentElement.scrollWidth`, &width)
		require.LessOrEqual(t, width, v.width, "nothing is beside the screen")
		require.Empty(t, b.hinders(script))
		if pictures != "" {
			data, _ := b.picture()
			require.NoError(t, os.WriteFile(filepath.Join(pictures, filepath.Base(t.Name())+".png"), data, 0o644))
		}
	})
}

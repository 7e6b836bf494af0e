package series

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// filler puts something into every field: each number is another one, and each text.
type filler struct {
	next    float64
	numbers map[string]float64 // by the field's path
}

func (f *filler) number(path string) float64 {
	f.next++
	f.numbers[path] = f.next
	return f.next
}

func (f *filler) fill(v reflect.Value, path string) {
	switch {
	case v.Type() == reflect.TypeFor[amdgpu.Number]():
		v.Set(reflect.ValueOf(amdgpu.Known(f.number(path))))
		return
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(hosttest.Now))
		return
	}
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(f.number(path))
	case reflect.Uint64:
		v.SetUint(uint64(f.number(path)))
	case reflect.Int:
		v.SetInt(int64(f.number(path)))
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprintf("%s %d", path, int(f.next)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
}

// full is a snapshot of so many GPUs that reports all that there is.
func full(n int) (monitor.Snapshot, *filler) {
	f := &filler{next: 1000, numbers: map[string]float64{}}
	s := monitor.Snapshot{At: hosttest.Now}
	for i := range n {
		g := monitor.GPU{Record: pool.Record{Slot: gpu.Slot{Index: i, PCI: fmt.Sprintf("0000:%02x:00.0", i+3), GFX: "gfx942", Model: "Some GPU"}}, Driver: "6.10.5", Up: true}
		f.fill(reflect.ValueOf(&g.State).Elem(), fmt.Sprintf("gpu%d", i))
		g.State.Identity.UUID, g.State.RuntimePower = fmt.Sprintf("GPU-%016x", i), "active"
		g.Health = health.Judgement{State: health.Critical, Score: 12.34, Faults: []health.Fault{{Kind: health.Hang}}}
		g.Socket = g.State.Activity.Graphics
		g.Traffic = &monitor.Traffic{Received: f.number("received"), Sent: f.number("sent")}
		since := hosttest.Now.Add(-time.Duration(f.number("since")) * time.Second)
		g.Lease = &pool.ReportedLease{Lease: pool.Lease{Held: true, Holder: pool.Holder{Container: "4f1c", Since: &since}, Doubt: "some"}}
		g.Service = &quarantine.GPU{Ref: quarantine.Ref{Name: "a"}, State: quarantine.Quarantined, QuarantinedSince: &since, Times: 3}
		g.Users = []usage.Row{{Container: "a", Processes: 2, Memory: []usage.Amount{{Name: "vram", Value: f.number("vram")}},
			Engines: []usage.Amount{{Name: "gfx", Value: f.number("gfx")}}, Units: []usage.Amount{{Value: f.number("units")}},
			Peak: []usage.Amount{{Name: "vram", Value: f.number("peak")}}}}
		s.GPUs = append(s.GPUs, g)
	}
	s.Module = monitor.Module{Running: "dkms", Selected: "dkms", Same: true}
	s.Service = &quarantine.Record{At: hosttest.Now.Add(-7 * time.Second), Verdicts: map[quarantine.Verdict]int{quarantine.TaskCaused: 2},
		FaultyRuns: []quarantine.Run{{Container: "c", Began: hosttest.Now, Verdict: quarantine.TaskCaused, GPUs: []quarantine.Use{{Ref: quarantine.Ref{Name: "a"}, NewFaults: []health.Fault{{Kind: health.Hang}}}}}}}
	s.Tasks = &verdict.Report{Counts: map[string]uint64{"machine": 1, verdict.Succeeded: 5}, Entries: []verdict.Entry{
		{Handle: "c", Ended: hosttest.Now.Add(-time.Minute), Energy: &taskrecord.Energy{Joules: 7200, Estimate: true}},
		{Handle: "unmeasured", Ended: hosttest.Now}, {Handle: "old", Ended: hosttest.Now.Add(-time.Hour), Energy: &taskrecord.Energy{Joules: 1}}}}
	s.Disk = &monitor.Disk{Size: f.number("disk"), Free: f.number("free")}
	s.Users = &usage.Result{Took: time.Second}
	s.Leases = &pool.Report{At: hosttest.Now.Add(-time.Second), Counters: pool.LeaseCounters{Granted: 1, Busy: 2, Impossible: 3, HeldSeconds: 4}}
	s.Reports = []monitor.ReadErrors{{GPU: "0", Failure: amdgpu.Failure{File: "gpu_metrics", Errno: "EIO"}, Count: 3}}
	return s, f
}

// showing shows the snapshot that *s is at the time.
func showing(s *monitor.Snapshot) *Gatherer {
	return New(func() monitor.Snapshot { return *s }, Options{Version: "v1.2.3", Page: "http://10.0.0.11:9401/", DCGM: true})
}

// textOf is a scrape.
func textOf(t testing.TB, g *Gatherer) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerForTransactional(g, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return w.Body.String()
}

// lines returns the sample lines of metrics with this prefix.
func lines(text, prefix string) (out []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

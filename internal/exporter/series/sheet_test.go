package series

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// requireFresh: what was made of the scrapes before is what a gatherer without a past
// makes of this one.
func requireFresh(t *testing.T, g *Gatherer, s *monitor.Snapshot) {
	t.Helper()
	require.Equal(t, textOf(t, showing(s)), textOf(t, g))
	pedantic(t, g)
}

func TestSeriesFollowTheSnapshots(t *testing.T) {
	none := amdgpu.Number{}
	for name, change := range map[string]func(*monitor.Snapshot){
		"nothing changes":                    func(*monitor.Snapshot) {},
		"numbers change":                     func(s *monitor.Snapshot) { s.GPUs[0].State.Temperature.Now = amdgpu.Known(99) },
		"the first value goes":               func(s *monitor.Snapshot) { s.GPUs[0].State.Temperature.Now = none },
		"a value in the middle goes":         func(s *monitor.Snapshot) { s.GPUs[0].State.Power.Now = none },
		"the last value goes":                func(s *monitor.Snapshot) { s.GPUs[1].Traffic = nil },
		"sensors change places":              func(s *monitor.Snapshot) { slices.Reverse(s.GPUs[0].State.Temperatures) },
		"a sensor has another name":          func(s *monitor.Snapshot) { s.GPUs[0].State.Temperatures[0].Sensor = "hbm9" },
		"a container goes and another comes": func(s *monitor.Snapshot) { s.GPUs[0].Users[0].Container = "b" },
		"the GPU has another name":           func(s *monitor.Snapshot) { s.GPUs[0].Slot.Model = "Another GPU" },
		"the driver is another one":          func(s *monitor.Snapshot) { s.GPUs[0].Driver = "6.12" },
		"GPUs swap their indices": func(s *monitor.Snapshot) {
			slices.Reverse(s.GPUs)
			for i := range s.GPUs {
				s.GPUs[i].Slot.Index = i
			}
		},
		"a board is in the place of another": func(s *monitor.Snapshot) { s.GPUs[1].State.Identity.UUID = "GPU-new" },
		"boards swap their places": func(s *monitor.Snapshot) {
			a, b := &s.GPUs[0].State.Identity, &s.GPUs[1].State.Identity
			*a, *b = *b, *a
		},
		"the first GPU goes": func(s *monitor.Snapshot) {
			s.GPUs = s.GPUs[1:]
			s.GPUs[0].Slot.Index = 0
		},
		"all GPUs go": func(s *monitor.Snapshot) { s.GPUs = nil },
		"a GPU is silent": func(s *monitor.Snapshot) {
			g := &s.GPUs[0]
			g.Silent, g.Up, g.State = true, false, reading.State{State: amdgpu.State{Identity: g.State.Identity}}
		},
		"reports and leases go": func(s *monitor.Snapshot) { s.Reports, s.Leases, s.Users, s.Module = nil, nil, nil, monitor.Module{} },
		"an error more, before the others": func(s *monitor.Snapshot) {
			s.Reports = append([]monitor.ReadErrors{{GPU: "", Failure: amdgpu.Failure{File: "search", Errno: "EIO"}, Count: 1}}, s.Reports...)
		},
		"more goes than is looked for": func(s *monitor.Snapshot) { s.GPUs[0].State.Temperatures = nil },
	} {
		t.Run(name, func(t *testing.T) {
			many := func() monitor.Snapshot {
				s, _ := full(2)
				for len(s.GPUs[0].State.Temperatures) < ahead {
					s.GPUs[0].State.Temperatures = append(s.GPUs[0].State.Temperatures, amdgpu.Temperature{
						Sensor: strings.Repeat("x", len(s.GPUs[0].State.Temperatures)), Now: amdgpu.Known(1), Critical: amdgpu.Known(2)})
				}
				return s
			}
			s := many()
			g := showing(&s)
			requireFresh(t, g, &s)
			change(&s)
			requireFresh(t, g, &s)
			s = many() // and back
			requireFresh(t, g, &s)
		})
	}
}

// Whatever comes, goes and changes places, in any order.
func TestSeriesOfAScrapeAreIndependent(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s monitor.Snapshot
	g := showing(&s)
	for range 150 {
		s, _ = full(3)
		for i := range s.GPUs {
			shake(r, reflect.ValueOf(&s.GPUs[i].State).Elem())
			s.GPUs[i].State.Identity.UUID = []string{"a", "b", "c"}[i]
			if r.IntN(4) == 0 {
				s.GPUs[i].Traffic, s.GPUs[i].Users = nil, nil
			}
		}
		r.Shuffle(len(s.GPUs), func(i, j int) { s.GPUs[i], s.GPUs[j] = s.GPUs[j], s.GPUs[i] })
		s.GPUs = s.GPUs[:r.IntN(len(s.GPUs)+1)]
		if r.IntN(2) == 0 {
			for i := range s.GPUs {
				s.GPUs[i].Slot.Index = i
			}
		}
		requireFresh(t, g, &s)
	}
}

// shake takes some of what is known away, and mixes the rest. Errors stay: they stay with
// their blocks.
func shake(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if n, ok := v.Addr().Interface().(*amdgpu.Number); ok {
			n.Known = r.IntN(4) > 0
			return
		}
		for _, field := range v.Fields() {
			shake(r, field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			shake(r, v.Index(i))
		}
		swap := reflect.Swapper(v.Interface())
		r.Shuffle(v.Len(), swap)
		v.Set(v.Slice(0, r.IntN(v.Len()+1)))
	}
}

// Names and labels cost more than numbers: they are made once for as long as they stay.
func TestLabelsAreMadeOnce(t *testing.T) {
	s, _ := full(2)
	g := showing(&s)
	first := pedantic(t, g)
	label := first[0].GetMetric()[0].GetLabel()[0]
	name := first[0].Name
	s, _ = full(2)
	s.GPUs[0].State.Temperature.Now = amdgpu.Number{}
	got, done, err := g.Gather()
	require.NoError(t, err)
	defer done()
	require.Same(t, name, got[0].Name)
	require.Same(t, label, got[0].GetMetric()[0].GetLabel()[0])
}

// A heap that grows with GPUs times labels makes 64 GPUs dearer than eight times 8 GPUs.
func TestSeriesShareTheirLabels(t *testing.T) {
	s := newSheet()
	for _, gpu := range []string{"0", "1"} {
		r := &rows{sheet: s, gpu: []*dto.LabelPair{s.pair("gpu", gpu)}}
		r.put(temperatureCelsius, 50, "edge")
		r.put(temperatureCelsius, 60, "junction")
	}
	m := s.families[temperatureCelsius.place].Metric
	require.Same(t, m[0].Label[0], m[1].Label[0])
	require.Same(t, m[0].Label[1], m[2].Label[1])
	require.NotSame(t, m[0].Label[1], m[1].Label[1])
	for i := range 3 * maxPairs {
		s.pair("container", itoa(i))
	}
	require.LessOrEqual(t, len(s.pairs), maxPairs)
	require.Equal(t, "edge", m[0].Label[1].GetValue())
}

func TestRemovedSeriesAreDropped(t *testing.T) {
	s, _ := full(8)
	g := showing(&s)
	textOf(t, g)
	require.Len(t, g.gpus, 8)
	s.GPUs = s.GPUs[:1]
	s.GPUs[0].State = reading.State{State: amdgpu.State{Identity: s.GPUs[0].State.Identity}}
	s.Reports = nil
	textOf(t, g)
	require.Len(t, g.gpus, 1)
	rows := len(g.own.memo)
	for _, r := range g.gpus {
		rows += len(r.memo)
	}
	samples := 0
	for line := range strings.Lines(textOf(t, g)) {
		if line[0] != '#' {
			samples++
		}
	}
	require.Equal(t, samples, rows)
}

// Text of a device, a report or a process may be anything.
func TestLabelsMayBeAnyText(t *testing.T) {
	const bad = "\xff\xfe\"quoted\" \\ and\nmore\x00"
	s, _ := full(1)
	s.GPUs[0].Slot.Model, s.GPUs[0].State.Identity.Serial = bad, bad
	s.GPUs[0].State.Temperatures[0].Sensor, s.GPUs[0].State.Inventory.Firmware[0].Version = bad, bad
	s.GPUs[0].Users[0].Container, s.GPUs[0].Lease.Container = bad, strings.Repeat("€", 40) // 64 bytes end within a letter
	s.Reports[0].File = bad
	g := showing(&s)
	for range 2 {
		pedantic(t, g)
		text := textOf(t, g)
		_, err := promlint.New(strings.NewReader(text)).Lint()
		require.NoError(t, err)
		require.Contains(t, text, `name="`+"\ufffd"+`\"quoted\" \\ and\nmore`+"\x00"+`"`)
		require.Contains(t, text, `rocm_gpu_lease_age_seconds{container="`+strings.Repeat("€", 21)+"\ufffd"+`"`)
	}
}

func FuzzLabels(f *testing.F) {
	f.Add("edge", "0x1")
	f.Add("\xff", "\"\n\\")
	s, _ := full(1)
	g := showing(&s)
	f.Fuzz(func(t *testing.T, a, b string) {
		s, _ = full(1)
		s.GPUs[0].State.Temperatures[0].Sensor, s.GPUs[0].State.Inventory.Firmware[0].Version, s.GPUs[0].Slot.Model = a, b, a+b
		_, err := promlint.New(strings.NewReader(textOf(t, g))).Lint()
		require.NoError(t, err)
		requireFresh(t, g, &s)
	})
}

// The numbers of a scrape are set in place: no number of another scrape may be among them.
func TestScrapesAtTheSameTimeDoNotMix(t *testing.T) {
	var turn atomic.Int64
	g := New(func() monitor.Snapshot {
		n := amdgpu.Known(float64(turn.Add(1)))
		s := monitor.Snapshot{}
		for i := range 16 {
			g := monitor.GPU{Record: pool.Record{Slot: gpu.Slot{Index: i}}, Up: true}
			g.State.Temperature.Now, g.State.Power.Now = n, n
			if int(n.Value)%3 == 0 {
				g.State.Memory.VRAM.Used = n
			}
			s.GPUs = append(s.GPUs, g)
		}
		return s
	}, Options{Version: "v1.2.3"})
	texts := make(chan string, 8*16)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 16 {
				texts <- textOf(t, g)
			}
		})
	}
	all.Wait()
	close(texts)
	for text := range texts {
		values := map[string]int{}
		for _, prefix := range []string{"rocm_gpu_temperature{", "rocm_power_usage{", "rocm_memory_used{"} {
			for _, line := range lines(text, prefix) {
				values[line[strings.LastIndexByte(line, ' '):]]++
			}
		}
		require.Len(t, values, 1, "each scrape has the numbers of one snapshot")
		for _, n := range values {
			require.Contains(t, []int{32, 48}, n)
		}
	}
}

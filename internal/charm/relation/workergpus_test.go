package relation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

func TestGPUsOfAWorkerAreReadByTheWeb(t *testing.T) {
	for name, c := range map[string]struct {
		gpus WorkerGPUs
		want map[string]string
	}{
		"none": {WorkerGPUs{}, map[string]string{"compute-runtime": "", "gpu-count": "", "gpu-missing": "", "gpu-archs": "", "gpu-sharing": "", "gpu-limit": "", "gpus": ""}},
		"shared": {WorkerGPUs{Runtime: "rocm", Count: 3, Archs: CountArchs([]string{"gfx942", "gfx90a", "gfx942"})},
			map[string]string{"compute-runtime": "rocm", "gpu-count": "3", "gpu-missing": "", "gpu-archs": "gfx942=2,gfx90a=1", "gpu-sharing": "shared", "gpu-limit": "", "gpus": ""}},
		"exclusive": {WorkerGPUs{Runtime: "rocm", Count: 2, Archs: CountArchs([]string{"", "gfx1100"}), Exclusive: true},
			map[string]string{"compute-runtime": "rocm", "gpu-count": "2", "gpu-missing": "", "gpu-archs": "gfx1100=1", "gpu-sharing": "exclusive", "gpu-limit": "none", "gpus": ""}},
		"one is missing": {WorkerGPUs{Runtime: "rocm", Count: 1, Missing: 1, Exclusive: true},
			map[string]string{"compute-runtime": "rocm", "gpu-count": "1", "gpu-missing": "1", "gpu-archs": "", "gpu-sharing": "exclusive", "gpu-limit": "none", "gpus": ""}},
		"all are missing": {WorkerGPUs{Runtime: "rocm", Missing: 2, Exclusive: true},
			map[string]string{"compute-runtime": "rocm", "gpu-count": "0", "gpu-missing": "2", "gpu-archs": "", "gpu-sharing": "exclusive", "gpu-limit": "none", "gpus": ""}},
		"limits itself": {WorkerGPUs{Runtime: "cuda", Count: 1, Exclusive: true, Limited: true},
			map[string]string{"compute-runtime": "cuda", "gpu-count": "1", "gpu-missing": "", "gpu-archs": "", "gpu-sharing": "exclusive", "gpu-limit": "own", "gpus": ""}},
	} {
		require.Equal(t, c.want, c.gpus.Databag(), name)
		got, problems := ParseWorkerGPUs(c.gpus.Databag())
		require.Empty(t, problems, name)
		require.Equal(t, c.gpus, got, name)
	}
}

func TestInvalidGPUsOfAWorkerAreProblems(t *testing.T) {
	for name, c := range map[string]struct {
		bag  map[string]string
		want WorkerGPUs
		say  string
	}{
		"no number":                {map[string]string{"compute-runtime": "x", "gpu-archs": "gfx942=1"}, WorkerGPUs{}, ""},
		"no such number":           {map[string]string{"gpu-count": "many"}, WorkerGPUs{}, `gpu-count: "many" is not a number of GPUs up to 1024`},
		"negative":                 {map[string]string{"gpu-count": "-1"}, WorkerGPUs{}, `gpu-count: "-1" is not a number of GPUs up to 1024`},
		"too many":                 {map[string]string{"gpu-count": "1025"}, WorkerGPUs{}, `gpu-count: "1025" is not a number of GPUs up to 1024`},
		"missing":                  {map[string]string{"gpu-count": "1", "gpu-missing": "-1"}, WorkerGPUs{Count: 1}, `gpu-missing: "-1" is not a number of GPUs up to 1024`},
		"runtime":                  {map[string]string{"gpu-count": "1", "compute-runtime": "metal"}, WorkerGPUs{Count: 1}, `compute-runtime: "metal" is not one of ` + strings.Join(gpu.Runtimes(), ", ")},
		"sharing":                  {map[string]string{"gpu-count": "1", "gpu-sharing": "alone"}, WorkerGPUs{Count: 1}, `gpu-sharing: "alone" is not one of shared, exclusive`},
		"limit":                    {map[string]string{"gpu-count": "1", "gpu-sharing": "exclusive", "gpu-limit": "4"}, WorkerGPUs{Count: 1, Exclusive: true}, `gpu-limit: "4" is not one of own, none`},
		"a key of another version": {map[string]string{"gpu-count": "1", "gpu-wait": "60"}, WorkerGPUs{Count: 1}, ""},
		"limit alone":              {map[string]string{"gpu-count": "1", "gpu-limit": "own"}, WorkerGPUs{Count: 1}, ""},
		"no arch":                  {map[string]string{"gpu-count": "1", "gpu-archs": "gfx942\n=1"}, WorkerGPUs{Count: 1}, `gpu-archs: "gfx942\n=1" is not an architecture and a number of GPUs, such as gfx942=8`},
		"no count":                 {map[string]string{"gpu-count": "1", "gpu-archs": "gfx942"}, WorkerGPUs{Count: 1}, `gpu-archs: "gfx942" is not an architecture and a number of GPUs, such as gfx942=8`},
		"twice":                    {map[string]string{"gpu-count": "2", "gpu-archs": "gfx942=1,gfx942=1"}, WorkerGPUs{Count: 2}, `gpu-archs: "gfx942=1" is not an architecture and a number of GPUs, such as gfx942=8`},
		"more than all":            {map[string]string{"gpu-count": "2", "gpu-archs": "gfx942=2,gfx90a=1"}, WorkerGPUs{Count: 2}, `gpu-archs: 3 GPUs are more than the 2 of gpu-count`},
		"long":                     {map[string]string{"gpu-count": "2", "gpu-archs": strings.Repeat("gfx942=1,", 17)}, WorkerGPUs{Count: 2}, `gpu-archs: want at most 16 architectures`},
	} {
		got, problems := ParseWorkerGPUs(c.bag)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.say, strings.Join(problems, "; "), name)
	}
}

func FuzzParseWorkerGPUs(f *testing.F) {
	f.Add("rocm", "4", "1", "gfx90a=2,gfx942=2", "exclusive", "own")
	f.Add("\n", "-0", "x", "gfx=,=,,", "shared", "4")
	f.Fuzz(func(t *testing.T, runtime, count, missing, archs, sharing, limit string) {
		g, problems := ParseWorkerGPUs(map[string]string{"compute-runtime": runtime, "gpu-count": count, "gpu-missing": missing, "gpu-archs": archs, "gpu-sharing": sharing, "gpu-limit": limit})
		oneLine(t, problems...)
		if len(strings.Join(problems, "")) > 2000 {
			t.Errorf("a text of %d bytes", len(strings.Join(problems, "")))
		}
		again, problems := ParseWorkerGPUs(g.Databag())
		require.Equal(t, g, again)
		require.Empty(t, problems)
		sum := 0
		for _, a := range g.Archs {
			sum += a.GPUs
		}
		if g.Count < 0 || g.Count > maxGPUs || sum > g.Count || len(g.Archs) > maxArchs {
			t.Errorf("%+v", g)
		}
	})
}

var publishedAt = time.Date(2026, 8, 1, 14, 0, 0, 0, time.UTC)

// publishedTwo are two GPUs of a unit that leases them.
func publishedTwo() WorkerGPUs {
	return WorkerGPUs{Runtime: "rocm", Count: 2, Exclusive: true, Archs: CountArchs([]string{"gfx942", "gfx942"}), Since: publishedAt, Each: []fleetfile.GPU{
		{Index: 0, GFX: "gfx942", Model: "AMD Instinct MI300X OAM", Service: "in_service", Leased: new(true)},
		{Index: 3, GFX: "gfx942", Model: "AMD Instinct MI300X OAM", Service: "quarantined", Leased: new(false)}}}
}

func TestPublishedGPUsAreReadBack(t *testing.T) {
	g := publishedTwo()
	bag := g.Databag()
	require.Equal(t, `{"at":"2026-08-01T14:00:00Z","gpus":[{"index":0,"gfx":"gfx942","model":"AMD Instinct MI300X OAM","service":"in_service","leased":true},`+
		`{"index":3,"gfx":"gfx942","model":"AMD Instinct MI300X OAM","service":"quarantined","leased":false}]}`, bag["gpus"])
	got, problems := ParseWorkerGPUs(bag)
	require.Empty(t, problems)
	require.Equal(t, g, got)
	require.False(t, got.Each[0].Quarantined() || got.Each[0].Free() || got.Each[1].Free())
	require.True(t, got.Each[1].Quarantined())
	require.True(t, fleetfile.GPU{Leased: new(false)}.Free(), "nobody watches it, as it is not AMD's")
	require.False(t, fleetfile.GPU{Service: "in_service"}.Free(), "nobody leases it, as it is shared")

	delete(bag, "gpus")
	got, problems = ParseWorkerGPUs(bag)
	require.Empty(t, problems)
	require.Nil(t, got.Each)
	require.Equal(t, 2, got.Count)

	// A card's memory can have any name.
	g.Each[0].Model = "\x1b[2J\u202e" + strings.Repeat("x", 100)
	got, problems = ParseWorkerGPUs(g.Databag())
	require.Empty(t, problems)
	require.Equal(t, "?[2J?"+strings.Repeat("x", 59)+"...", got.Each[0].Model)
}

// Each change of a bag is a hook of the web.
func TestDatabagOfGPUsChangesOnlyWithTheGPUs(t *testing.T) {
	const hook = 5 * time.Minute
	g := publishedTwo()
	g.Each[0].Model += "  \n"
	bag, at := map[string]string{}, publishedAt
	tell := func(after time.Duration) (changed bool) {
		at = at.Add(after)
		before := bag["gpus"]
		bag = g.After(bag, at).Databag()
		return bag["gpus"] != before
	}
	require.True(t, tell(0))
	require.Contains(t, bag["gpus"], `{"at":"2026-08-01T14:00:00Z",`)
	for range 12 {
		require.False(t, tell(hook), "nothing is new")
	}
	g.Each[0].Leased = new(false)
	require.True(t, tell(hook), "the first lease that ends for long")
	require.Contains(t, bag["gpus"], `{"at":"2026-08-01T15:05:00Z",`)
	g.Each[0].Leased = new(true)
	require.False(t, tell(hook), "leases alone wait")
	g.Each[1].Leased = nil
	require.False(t, tell(hook))
	require.True(t, tell(hook), "for a quarter of an hour")
	g.Each[0].Leased = new(false)
	require.True(t, tell(-time.Hour), "a clock that was set back holds nothing up")
	g.Each[0].Service = "quarantined"
	require.True(t, tell(time.Second), "what matters is told at once")
	g.Count, g.Each = 1, g.Each[:1]
	require.True(t, tell(time.Second))
	g = WorkerGPUs{}
	require.True(t, tell(time.Second))
	require.Empty(t, bag["gpus"])
	require.False(t, tell(time.Second))
}

func TestInvalidListsOfGPUsAreProblems(t *testing.T) {
	const at = `{"at":"2026-08-01T14:00:00Z","gpus":`
	for text, say := range map[string]string{
		`[]`:                           `gpus: "[]" is not a list of GPUs`,
		at + `[]}`:                     "gpus: 0 GPUs are not the 1 of gpu-count",
		at + `[{},{"index":1}]}`:       "gpus: 2 GPUs are not the 1 of gpu-count",
		`{"gpus":[{}]}`:                "gpus: no clock shows the year 1",
		`{"at":"soon","gpus":[{}]}`:    `gpus: "{\"at\":\"soon\",\"gpus\":[{}]}" is not a list of GPUs`,
		at + `[{"index":-1}]}`:         "gpus: there can't be two GPUs -1, nor one beyond 1024",
		at + `[{"index":1024}]}`:       "gpus: there can't be two GPUs 1024, nor one beyond 1024",
		at + `[{"gfx":"gfx\n"}]}`:      `gpus: "gfx\n" is not an architecture such as gfx942`,
		at + `[{"service":"sick"}]}`:   `gpus: "sick" is not a state of a GPU`,
		strings.Repeat(" ", 256<<10+1): "gpus: 262145 bytes are more than the GPUs of a machine need",
	} {
		g, problems := ParseWorkerGPUs(map[string]string{"gpu-count": "1", "gpus": text})
		require.Equal(t, WorkerGPUs{Count: 1}, g, text)
		require.Equal(t, say, strings.Join(problems, "; "))
	}
	g, problems := ParseWorkerGPUs(map[string]string{"gpu-count": "1", "gpus": at + `[{"index":7,"of another version":1}],"more":2}`})
	require.Empty(t, problems)
	require.Equal(t, []fleetfile.GPU{{Index: 7}}, g.Each)
	_, problems = ParseWorkerGPUs(map[string]string{"gpu-count": "2", "gpus": at + `[{"index":7},{"index":7}]}`})
	require.Equal(t, []string{"gpus: there can't be two GPUs 7, nor one beyond 1024"}, problems)
}

func FuzzPublishedGPUs(f *testing.F) {
	f.Add(2, publishedTwo().Databag()["gpus"])
	f.Add(1, `{"at":"9999-12-31T23:59:59-23:59","gpus":[{"model":"\u001b[2J\ud800 "}]}`)
	f.Add(1, `{"at":"2026-08-01T14:00:00Z","gpus":[{"model":"`+strings.Repeat("Z", maxModel+1)+`"}]}`)
	f.Add(0, `{"gpus":null}`)
	f.Fuzz(func(t *testing.T, count int, text string) {
		bag := map[string]string{"gpu-count": fmt.Sprint(count), "gpus": text}
		g, problems := ParseWorkerGPUs(bag)
		oneLine(t, problems...)
		if len(g.Each) > maxGPUs || len(g.Each) > 0 && len(g.Each) != g.Count {
			t.Errorf("%+v", g)
		}
		for _, one := range g.Each {
			if len([]rune(one.Model)) > maxModel+len("...") || strings.ContainsFunc(one.Model, func(r rune) bool { return !unicode.IsPrint(r) }) || !slices.Contains(services, one.Service) {
				t.Errorf("%+v", one)
			}
		}
		again, problems := ParseWorkerGPUs(g.Databag())
		require.Empty(t, problems)
		require.Equal(t, g, again)
		// A unit that finds this in its own bag, and the same on its machine, changes nothing.
		require.Equal(t, g.Databag(), g.After(g.Databag(), g.Since.Add(time.Hour)).Databag())
	})
}

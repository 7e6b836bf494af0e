package fixedclocks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.UnixMilli(1700000000000).UTC()

func TestJudge(t *testing.T) {
	well := Reading{At: at, Level: Standard, ThrottleKnown: true}
	counted := func(pairs ...any) (c Counters) {
		for i := 0; i < len(pairs); i += 2 {
			c = append(c, Counter{pairs[i].(string), uint64(pairs[i+1].(int))})
		}
		return c
	}
	with := func(change func(*Reading)) Reading { now := well; change(&now); return now }
	for name, c := range map[string]struct {
		before Counters
		now    Reading
		want   string
	}{
		"well":                        {nil, well, ""},
		"not read":                    {nil, with(func(r *Reading) { r.Failed = "it does not answer" }), "it does not answer"},
		"another program set them":    {nil, with(func(r *Reading) { r.Level = auto }), "another program changed its clocks: power_dpm_force_performance_level is auto, not profile_standard"},
		"throttling is not reported":  {nil, with(func(r *Reading) { r.ThrottleKnown = false }), "its driver does not report throttling"},
		"bits":                        {nil, with(func(r *Reading) { r.Limits = []string{"temp_mem", "ppt0"} }), "it was throttled: ppt0, temp_mem"},
		"first counters":              {nil, with(func(r *Reading) { r.Counters = counted("", 1000, "ppt", 990) }), ""},
		"counters that stand":         {counted("", 1000, "ppt", 90), with(func(r *Reading) { r.Counters = counted("", 7000, "ppt", 90) }), ""},
		"below the noise":             {counted("", 1000, "ppt", 90), with(func(r *Reading) { r.Counters = counted("", 7000, "ppt", 149) }), ""},
		"one in a hundred":            {counted("", 1000, "ppt", 90, "prochot", 1), with(func(r *Reading) { r.Counters = counted("", 7000, "ppt", 150, "prochot", 1) }), "it was throttled: ppt, 1 % of the time between two looks"},
		"two, the worse one's share":  {counted("", 0, "ppt", 0, "prochot", 0), with(func(r *Reading) { r.Counters = counted("", 6000, "ppt", 3000, "prochot", 600) }), "it was throttled: ppt, prochot, 50 % of the time between two looks"},
		"ticks of no length":          {counted("spl", 5), with(func(r *Reading) { r.Counters = counted("spl", 6) }), "it was throttled: spl"},
		"a limit that is new":         {counted("", 1000), with(func(r *Reading) { r.Counters = counted("", 7000, "ppt", 90) }), ""},
		"counters that began again":   {counted("", 9000, "ppt", 90), with(func(r *Reading) { r.Counters = counted("", 100, "ppt", 0) }), "the GPU was reset"},
		"a counter that began again":  {counted("ppt", 90), with(func(r *Reading) { r.Counters = counted("ppt", 0) }), "the GPU was reset"},
		"no time between two looks":   {counted("", 1000, "ppt", 90), with(func(r *Reading) { r.Counters = counted("", 1000, "ppt", 90) }), ""},
		"counters that are no longer": {counted("", 1000, "ppt", 90), well, "the GPU was reset"},
	} {
		r := Judge(Measurement{Level: Standard, Counters: c.before}, c.now)
		require.Equal(t, c.want, whyOf(r), name)
		require.Equal(t, c.now.Counters, r.Counters, name)
		require.Equal(t, 1, r.Looks)
		require.Equal(t, c.want == "", VerdictOf([]Measurement{r}).Valid, name)
		if c.want != "" { // it stays, for its time
			require.Equal(t, r.InvalidSpans, Judge(r, well).InvalidSpans, name)
		}
	}
}

func whyOf(r Measurement) string {
	if len(r.InvalidSpans) == 0 {
		return ""
	}
	return r.InvalidSpans[0].Reason
}

// A problem is recorded from the look before, because it may have begun then.
func TestProblemsHaveTimes(t *testing.T) {
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	r := Measurement{Level: Standard, Since: at}
	for n, limit := range []string{"", "", "ppt0", "temp", "", "", "ppt1", ""} {
		now := Reading{At: second(n + 1), Level: Standard, ThrottleKnown: true}
		if limit != "" {
			now.Limits = []string{limit}
		}
		r = Judge(r, now)
	}
	require.Equal(t, spans{{second(2), second(4), "it was throttled: ppt0"}, {second(6), second(7), "it was throttled: ppt1"}}, r.InvalidSpans)
	r = Judge(Measurement{Level: Standard, Since: at}, Reading{At: second(1), Level: auto})
	require.Equal(t, Span{at, second(1), "another program changed its clocks: power_dpm_force_performance_level is auto, not profile_standard"}, r.InvalidSpans[0])
	for n := range 20 { // more than are kept apart
		r.Looked = second(10 * n)
		r.MarkInvalid("x", second(10*n+1))
	}
	require.Len(t, r.InvalidSpans, maxSpans)
	require.Equal(t, at, r.InvalidSpans[0].From, "the earliest spans are joined")
	require.Equal(t, second(141), r.InvalidSpans[0].To)
	require.Equal(t, Span{second(190), second(191), "x"}, r.InvalidSpans[maxSpans-1])
}

// A clock is compared with its first value if the GPU was busy at two looks in a row.
func TestClocksOfABusyGPUAreJudged(t *testing.T) {
	type look struct {
		busy     bool
		gfx, mem int
	}
	for name, c := range map[string]struct {
		level Level
		looks []look
		want  string
		seen  []Clock
	}{
		"never busy":                {Standard, []look{{false, 2000, 900}, {false, 500, 96}}, "", nil},
		"busy at one look":          {Standard, []look{{false, 500, 96}, {true, 700, 900}, {false, 500, 96}}, "", nil},
		"steady":                    {Standard, []look{{true, 500, 96}, {true, 2000, 900}, {true, 1900, 900}, {true, 2100, 900}}, "", []Clock{{"gfx", 2000, 1900, 2100}, {"mem", 900, 900, 900}}},
		"slower":                    {Standard, []look{{true, 2000, 900}, {true, 2000, 900}, {true, 1899, 900}}, "its gfx clock was 1899 MHz, and 2000 MHz at first", []Clock{{"gfx", 2000, 1899, 2000}, {"mem", 900, 900, 900}}},
		"faster":                    {Determinism, []look{{true, 1800, 900}, {true, 1800, 900}, {true, 2101, 900}}, "its gfx clock was 2101 MHz, and 1800 MHz at first", []Clock{{"gfx", 1800, 1800, 2101}, {"mem", 900, 900, 900}}},
		"memory":                    {Standard, []look{{true, 2000, 900}, {true, 2000, 900}, {true, 2000, 456}}, "its mem clock was 456 MHz, and 900 MHz at first", []Clock{{"gfx", 2000, 2000, 2000}, {"mem", 900, 456, 900}}},
		"memory is not fixed":       {Determinism, []look{{true, 2000, 900}, {true, 2000, 900}, {true, 2000, 456}}, "", []Clock{{"gfx", 2000, 2000, 2000}, {"mem", 900, 456, 900}}},
		"a clock is not reported":   {Standard, []look{{true, 0, 900}, {true, 0, 900}, {true, 0, 900}}, "", []Clock{{"mem", 900, 900, 900}}},
		"not busy between two runs": {Standard, []look{{true, 2000, 900}, {true, 2000, 900}, {false, 500, 96}, {true, 700, 96}, {true, 2000, 900}}, "", []Clock{{"gfx", 2000, 2000, 2000}, {"mem", 900, 900, 900}}},
	} {
		r := Measurement{Level: c.level}
		for _, l := range c.looks {
			now := Reading{At: at, Level: c.level, ThrottleKnown: true, Busy: l.busy}
			for domain, mhz := range map[string]int{"gfx": l.gfx, "mem": l.mem} {
				if mhz > 0 {
					now.Clocks = append(now.Clocks, MHz{domain, mhz})
				}
			}
			slices.SortFunc(now.Clocks, func(a, b MHz) int { return strings.Compare(a.Domain, b.Domain) })
			r = Judge(r, now)
		}
		require.Equal(t, c.want, whyOf(r), name)
		require.Equal(t, c.seen, r.Clocks, name)
	}
}

func TestVerdictCombinesAllGPUs(t *testing.T) {
	one, two := Measurement{Level: Standard, Looks: 3, Looked: at}, Measurement{Level: Standard, Looks: 2, Looked: at.Add(-time.Second)}
	require.Equal(t, Verdict{Valid: true, Level: Standard, Looked: at.Add(-time.Second), Looks: 2}, VerdictOf([]Measurement{one, two}))
	none := Measurement{Level: Standard}
	require.Equal(t, Verdict{Reason: notYet, Level: Standard}, VerdictOf([]Measurement{one, none}))
	bad := two
	bad.MarkInvalid("it was throttled: ppt", at)
	require.Equal(t, whyOf(bad), VerdictOf([]Measurement{none, bad}).Reason, "what is known goes before what is not")
	require.Equal(t, whyOf(bad), VerdictOf([]Measurement{bad, none}).Reason)
	require.False(t, VerdictOf(nil).Valid)
	later, bad := one, bad
	later.MarkInvalid("the GPU was reset", at.Add(time.Minute))
	later.GPU, later.Clocks = gpu, []Clock{{"gfx", 2000, 1900, 2100}}
	v := VerdictOf([]Measurement{later, bad})
	require.Equal(t, []Span{{at.Add(-time.Second), at.Add(time.Minute), whyOf(bad)}}, v.InvalidSpans, "of all GPUs")
	require.Equal(t, []Measurement{later}, v.Clocks)
}

// The task's programs read it with any JSON, whatever the reason is.
func TestVerdictIsJSONOfOneSize(t *testing.T) {
	for _, reason := range []string{"", `"x" y`, strings.Repeat("ü", 3000), strings.Repeat(`"`, 3000), strings.Repeat("\x01", 3000)} {
		r := Measurement{Level: Standard, Since: at, Clocks: []Clock{{"gfx", 20000, 20000, 20000}, {"mem", 20000, 20000, 20000}}}
		var all []Measurement
		for n := range 64 {
			r.GPU, r.Looked = fmt.Sprintf("0000:%02x:00.0", n), at.Add(time.Duration(10*n)*time.Second)
			r.MarkInvalid(reason, r.Looked)
			all = append(all, r)
		}
		sum := VerdictOf(all)
		sum.Reason, sum.Looked, sum.Looks = reason, at, 7
		data := sum.encode()
		var v struct {
			Valid                 *bool
			Reason, Level, Looked string
			Looks                 int
			InvalidSpans          []struct {
				From, To time.Time
				Reason   string
			} `json:"invalid_spans"`
			Clocks map[string]map[string][2]int
		}
		require.NoError(t, json.Unmarshal(data, &v))
		require.Len(t, data, verdictSize)
		require.True(t, v.Valid != nil && !*v.Valid && strings.HasPrefix(strings.ReplaceAll(reason, "\x01", " "), v.Reason))
		require.Len(t, v.InvalidSpans, maxSpans)
		require.Equal(t, all[63].InvalidSpans[maxSpans-1].To, v.InvalidSpans[maxSpans-1].To.UTC())
		require.Equal(t, [2]int{20000, 20000}, v.Clocks["0000:0f:00.0"]["mem"], "of sixteen GPUs at least")
		require.Equal(t, "profile_standard 7 2023-11-14T22:13:20Z", v.Level+" "+string(rune('0'+v.Looks))+" "+v.Looked)
	}
}

func TestMeasurementRoundTrip(t *testing.T) {
	for _, r := range []Measurement{
		{Task: task("c1"), Boot: "b", Level: Standard, Since: at},
		{Task: Task{"c1", `/a"b`}, Boot: "b", Level: Determinism, Since: at, Looked: at, Looks: 2, InvalidSpans: spans{{at, at.Add(time.Second), "x"}, {at.Add(time.Minute), at.Add(time.Hour), `"`}},
			Counters: Counters{{"", 1}, {"ppt", 1 << 62}}, Busy: true, Clocks: []Clock{{"gfx", 3, 2, 4}, {"mem", 1, 1, 1}}},
	} {
		got, err := decode(append(r.appendTo(nil), "   \n"...))
		require.NoError(t, err)
		got.Since, got.Looked = got.Since.UTC(), got.Looked.UTC()
		for i, s := range got.InvalidSpans {
			got.InvalidSpans[i].From, got.InvalidSpans[i].To = s.From.UTC(), s.To.UTC()
		}
		require.Equal(t, r, *got)
	}
	none, err := decode([]byte("  \n"))
	require.True(t, none == nil && err == nil)
}

func TestHighestClock(t *testing.T) {
	for text, want := range map[string]int{
		"OD_SCLK:\n0: 500Mhz\n1: 2100Mhz\nOD_MCLK:\n0: 900Mhz\n1: 1300Mhz": 2100,
		"OD_SCLK:\n0: 800Mhz\n1: 2400 MHz\n":                               2400,
		"OD_MCLK:\n1: 1300Mhz\n":                                           0,
		"OD_SCLK:\n0: 500Mhz\nOD_MCLK:\n1: 1300Mhz\n":                      0,
		"OD_SCLK:\n1: 99999999Mhz\n":                                       0,
		"OD_SCLK:\n1: -1Mhz\n":                                             0,
		"OD_SCLK:\n1: 2100\n":                                              0,
		"":                                                                 0,
	} {
		n, ok := highestClock(text)
		require.Equal(t, want, n, text)
		require.Equal(t, want != 0, ok, text)
	}
}

func FuzzMeasurement(f *testing.F) {
	f.Add((&Measurement{Task: task("c1"), Boot: "b", Level: Standard, Looks: 1, Counters: Counters{{"ppt", 1}},
		InvalidSpans: spans{{at, at, "x"}}, Clocks: []Clock{{"gfx", 3, 2, 4}}}).appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err == nil && r != nil {
			again, err := decode(r.appendTo(nil))
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
	})
}

// Programs of other versions read these files.
func TestMeasurementFileFormat(t *testing.T) {
	at := time.UnixMilli(99)
	r := Measurement{
		Task: Task{"c", "/b"}, Boot: "x", Level: Standard, Since: at, Looked: at, Looks: 3, Busy: true,
		InvalidSpans: spans{{at, at, "y"}}, Clocks: []Clock{{"gfx", 3, 2, 4}}, Counters: Counters{{"a", 5}, {"", 7}},
	}
	require.Equal(t, `{"format_version":1,"container":"c","bundle":"/b","boot":"x","level":"profile_standard","since":99,"looked":99,"looks":3,`+
		`"busy":1,"invalid_spans":[{"from":99,"to":99,"reason":"y"}],"clocks":[{"domain":"gfx","first":3,"min":2,"max":4}],`+
		`"counters":{"a":5,"":7}}`, string(r.appendTo(nil)))
}

package pin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.UnixMilli(1700000000000).UTC()

func TestJudge(t *testing.T) {
	well := Reading{At: at, Level: Standard, Known: true}
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
		"set by others":               {nil, with(func(r *Reading) { r.Level = auto }), "its clocks were set meanwhile: power_dpm_force_performance_level is auto, not profile_standard"},
		"nothing is told":             {nil, with(func(r *Reading) { r.Known = false }), "its driver does not tell whether it is throttled"},
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
		r := Judge(Record{Level: Standard, Counters: c.before}, c.now)
		require.Equal(t, c.want, r.Why, name)
		require.Equal(t, c.now.Counters, r.Counters, name)
		require.Equal(t, 1, r.Looks)
		require.Equal(t, c.want == "", VerdictOf([]Record{r}).Valid, name)
		if c.want != "" { // it stays
			require.Equal(t, c.want, Judge(r, well).Why, name)
		}
	}
}

func TestVerdictIsTheLeastOfAllGPUs(t *testing.T) {
	one, two := Record{Level: Standard, Looks: 3, Looked: at}, Record{Level: Standard, Looks: 2, Looked: at.Add(-time.Second)}
	require.Equal(t, Verdict{true, "", Standard, at.Add(-time.Second), 2}, VerdictOf([]Record{one, two}))
	none := Record{Level: Standard}
	require.Equal(t, Verdict{false, notYet, Standard, time.Time{}, 0}, VerdictOf([]Record{one, none}))
	bad := two
	bad.Why = "it was throttled: ppt"
	require.Equal(t, bad.Why, VerdictOf([]Record{none, bad}).Reason, "what is known goes before what is not")
	require.Equal(t, bad.Why, VerdictOf([]Record{bad, none}).Reason)
	require.False(t, VerdictOf(nil).Valid)
}

// The task's programs read it with any JSON, whatever the reason is.
func TestVerdictIsJSONOfOneSize(t *testing.T) {
	for _, reason := range []string{"", `"x"` + "\n\x01", strings.Repeat("ü", 3000), strings.Repeat("\x01", 3000)} {
		data := Verdict{Reason: reason, Level: Standard, Looked: at, Looks: 7}.encode()
		var v struct {
			Valid                 *bool
			Reason, Level, Looked string
			Looks                 int
		}
		require.NoError(t, json.Unmarshal(data, &v))
		require.Len(t, data, verdictSize)
		require.True(t, v.Valid != nil && !*v.Valid && strings.HasPrefix(reason, v.Reason))
		require.Equal(t, "profile_standard 7 2023-11-14T22:13:20Z", v.Level+" "+string(rune('0'+v.Looks))+" "+v.Looked)
	}
}

func TestRecordIsReadAsItWasWritten(t *testing.T) {
	for _, r := range []Record{
		{Task: task("c1"), Boot: "b", Level: Standard, Since: at},
		{Task: Task{"c1", `/a"b`}, Boot: "b", Level: Determinism, Since: at, Looked: at, Looks: 2, Why: "x", Counters: Counters{{"", 1}, {"ppt", 1 << 62}}},
	} {
		got, err := decode(append(r.appendTo(nil), "   \n"...))
		require.NoError(t, err)
		got.Since, got.Looked = got.Since.UTC(), got.Looked.UTC()
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

func FuzzRecord(f *testing.F) {
	f.Add((&Record{Task: task("c1"), Boot: "b", Level: Standard, Looks: 1, Counters: Counters{{"ppt", 1}}}).appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err == nil && r != nil {
			again, err := decode(r.appendTo(nil))
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
	})
}

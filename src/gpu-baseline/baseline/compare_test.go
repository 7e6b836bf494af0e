package baseline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// profile makes a profile of ok examples that took a second.
func profile(names ...string) Profile {
	p := Profile{File: "p"}
	for _, n := range names {
		second := Amount(perUnit)
		p.Examples = append(p.Examples, Example{n, Measured{Status: StatusOK, Duration: &second}})
	}
	return p
}

func TestExamplesArePairedByName(t *testing.T) {
	for name, c := range map[string]struct {
		base, now Profile
		want      []string
	}{
		"in another order": {profile("a", "b"), profile("b", "c", "a"), []string{"a within", "b within", "c new"}},
		"one is missing":   {profile("a", "b"), profile("b", "c"), []string{"a missing", "b within", "c new"}},
		"no baseline":      {profile(), profile("b"), []string{"b new"}},
	} {
		var got []string
		for _, row := range compare(c.base, c.now, Limits{}).Rows {
			got = append(got, row.Name+" "+string(row.Result))
		}
		require.Equal(t, c.want, got, name)
	}
}

// As floating point 1.1-1.0 is more than 0.1, and 110 % of 1.0 more than 1.1.
func TestGrowthOfExactlyTheLimitIsWithinIt(t *testing.T) {
	for _, c := range []struct {
		base, now, pct, seconds string
		want                    Result
	}{
		{"1", "1.1", "10", "0.1", Within},
		{"1", "1.1", "9.9999", "0.1", Beyond},
		{"1", "1.1", "10", "0.099999", Beyond},
		{"0.3", "0.6", "100", "0.3", Within},
		{"1000000000", "1000000000", "0", "0", Within},
		{"999999999.999999", "1000000000", "1", "0", Beyond},
		{"3", "1", "0", "0", Within},
	} {
		pct, err := parsePercent(c.pct)
		require.NoError(t, err)
		limits := Limits{DurationPct: &pct, Duration: amount(t, c.seconds)}
		r := limits.row(&Example{"a", Measured{Status: StatusOK, Duration: amount(t, c.base), Memory: nil}}, &Example{"a", Measured{Status: StatusOK, Duration: amount(t, c.now), Memory: nil}})
		require.Equal(t, c.want, r.Result, "%+v: %v", c, r.Reasons)
	}
}

// A slowdown of 20 % that is 2 ms is nothing, nor is one of 2 s in an hour.
func TestLimitsTogetherMustBeExceededBoth(t *testing.T) {
	for _, c := range []struct {
		base, now string
		together  bool
		want      Result
	}{
		{"0.01", "0.012", false, Beyond},
		{"0.01", "0.012", true, Within},
		{"3600", "3602", false, Beyond},
		{"3600", "3602", true, Within},
		{"3600", "4000", true, Beyond},
		{"0", "2", true, Beyond}, // has no percentage: seconds alone decide
		{"0", "0.5", true, Within},
	} {
		pct := Percent(10)
		second := Amount(perUnit)
		for _, memory := range []bool{false, true} {
			base, now := Measured{Status: StatusOK, Duration: amount(t, c.base), Memory: nil}, Measured{Status: StatusOK, Duration: amount(t, c.now), Memory: nil}
			limits := Limits{DurationPct: &pct, Duration: &second, Together: c.together}
			if memory {
				base, now = Measured{Status: StatusOK, Duration: nil, Memory: base.Duration}, Measured{Status: StatusOK, Duration: nil, Memory: now.Duration}
				limits = Limits{MemoryPct: &pct, Memory: &second, Together: c.together}
			}
			r := limits.row(&Example{"a", base}, &Example{"a", now})
			require.Equal(t, c.want, r.Result, "%+v: %v", c, r.Reasons)
		}
	}
	pct := Percent(10)
	alone := Limits{DurationPct: &pct, Together: true}
	r := alone.row(&Example{"a", Measured{Status: StatusOK, Duration: amount(t, "0.01"), Memory: nil}}, &Example{"a", Measured{Status: StatusOK, Duration: amount(t, "0.012"), Memory: nil}})
	require.Equal(t, Beyond, r.Result, "one limit has none to be together with")
}

func amount(t *testing.T, s string) *Amount {
	a, err := parseAmount(s)
	require.NoError(t, err)
	return &a
}

// A percentage of next to nothing is large, and still a number that JSON has.
func TestPercentageOfATinyBaselineIsANumber(t *testing.T) {
	p := percent(*amount(t, "1000000000"), *amount(t, "0.000001"))
	require.Equal(t, "100000000000000000", p.String())
	require.Nil(t, percent(1, 0))
}

func TestAmountsAreShownAsTheyWereGiven(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "1": "1", "1.50": "1.5", "0.000001": "0.000001", "0.0000004": "0", "0.0000005": "0.000001",
		"1e3": "1000", "1000000000": "1000000000", "123456789.123456": "123456789.123456", "100": "100",
	} {
		a, err := parseAmount(in)
		require.NoError(t, err, in)
		require.Equal(t, want, a.String(), in)
	}
	require.Equal(t, "-1.5", Amount(-1500000).String())
	require.Equal(t, "-0.000001", Amount(-1).String())
	require.Equal(t, "+2", signed("2"))
	require.Equal(t, "0", percent(-0, 1).String())
	require.Equal(t, "0", percent(-1, maxAmount*perUnit).String(), "no minus before what rounds to nothing")
}

// The profiler's own text is shown with the failed example, without a trace and as code.
func TestErrorOfAFailedExampleIsShown(t *testing.T) {
	parse := func(name, text string) Profile {
		p, err := Parse(name, []byte(text))
		require.NoError(t, err)
		return p
	}
	base := parse("base", `{"examples": {"a": {"status": "ok"}, "b": {"status": "ok"}, "c": {"status": "ok"}}}`)
	now := parse("new", `{"examples": {"a": {"status": "failed", "error": "Traceback\n  line 3\nRuntimeError: @all | out of memory"},
		"b": {"status": "failed", "error": {"code": 1}}, "c": {"status": "ok", "error": ""}}}`)
	r := compare(base, now, Limits{})
	require.Contains(t, r.Text(), "\"a\": its error: \"RuntimeError: @all | out of memory\"\n")
	require.Contains(t, r.Markdown(), "- `a`: its error: <code>RuntimeError&#58; &#64;all &#124; out of memory</code>\n")
	require.Equal(t, 1, strings.Count(r.Text(), "its error"))
	require.Contains(t, r.JSON(), `"error": "RuntimeError: @all | out of memory"`)
}

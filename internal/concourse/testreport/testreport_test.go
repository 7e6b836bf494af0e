package testreport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(t testing.TB, files ...string) Report {
	t.Helper()
	var j JUnit
	for _, f := range files {
		require.NoError(t, j.Read(strings.NewReader(f)))
	}
	return j.Report()
}

const pytest = `<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="tests.test_ops" name="test_add[cuda]" time="0.01" />
<properties><property name="seed" value="7"/></properties>
<testcase classname="tests.test_ops" name="test_mul"><failure message="password=hunter2">E  assert 1 == 2</failure></testcase>
<testcase classname="tests.test_ops" name="test_div"><error message="x">y</error><system-out><![CDATA[<failure/>]]></system-out></testcase>
<testcase classname="tests.test_ops" name="test_big"><skipped/></testcase>
</testsuite></testsuites>`

func TestResultsOfJUnitFilesAreRead(t *testing.T) {
	r := read(t, pytest, `<testsuite><testcase name="main"/><testcase name="main"><failure/></testcase>
<testcase name="ok"><system-out><failure/></system-out></testcase></testsuite>`)
	require.Equal(t, []string{"main", "tests.test_ops.test_div", "tests.test_ops.test_mul"}, r.Failed)
	require.Equal(t, 7, r.Tests)
	for name, want := range map[string][2]bool{"tests.test_ops.test_add[cuda]": {true, true}, "ok": {true, true},
		"main": {true, false}, "tests.test_ops.test_big": {false, false}, "other": {false, false}} {
		known, passed := r.Has(name)
		require.Equal(t, want, [2]bool{known, passed}, name)
	}
	require.NotContains(t, r.Line(), "hunter2")
}

func TestLineIsReadAsItWasWritten(t *testing.T) {
	want := read(t, pytest)
	got, err := Parse(want.Line() + "\r\n")
	require.NoError(t, err)
	require.Equal(t, want, got)
	const none = Prefix + `{"tests":0,"failed":[],"passed":""}`
	require.Equal(t, none, Report{}.Line())
	got, err = Parse(none)
	require.NoError(t, err)
	require.Equal(t, Report{}, got)
}

// A line of a huge suite stays bounded, and two runs keep the same tests.
func TestLineOfManyTestsIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("<testsuite>")
	for i := range 30_000 {
		inner := ""
		if i%20 == 0 {
			inner = "<failure/>"
		}
		fmt.Fprintf(&b, `<testcase classname="%s&quot;&quot;" name="t%d">%s</testcase>`, strings.Repeat("c", 150), i, inner)
	}
	b.WriteString("</testsuite>")
	r := read(t, b.String())
	require.Equal(t, maxPassed, len(r.Passed))
	require.LessOrEqual(t, len(r.Line()), MaxLine)
	got, err := Parse(r.Line())
	require.NoError(t, err)
	require.Equal(t, r.Passed, got.Passed)
	require.NotEmpty(t, got.Failed)
	require.Equal(t, 30_000, got.Tests)
}

func TestImpossibleJUnitFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "ends too early",
		"{}":                           "ends too early",
		"<a><b>":                       "ends too early",
		"<a></a></a>":                  "ends twice",
		"<a>&x;</a>":                   "is not XML",
		"<a>\xff</a>":                  "is not XML",
		strings.Repeat("<a>", 65):      "more than 64 levels",
		`<?xml version="1.1"?><a></a>`: "is not XML",
	} {
		var j JUnit
		require.ErrorContains(t, j.Read(strings.NewReader(text)), want, "%.40q", text)
	}
}

func TestImpossibleLinesAreRefused(t *testing.T) {
	for _, line := range []string{"", "junit-results/2 {}", Prefix, Prefix + "[]", Prefix + `{"passed":"!"}`, Prefix + `{"passed":"AAA="}`,
		Prefix + `{"tests":-1}`, Prefix + `{"failed":[` + strings.Repeat(`"a",`, maxFailed) + `"a"]}`, Prefix + strings.Repeat(" ", MaxLine) + "{}"} {
		_, err := Parse(line)
		require.Error(t, err, "%.60q", line)
	}
}

func FuzzJUnit(f *testing.F) {
	f.Add(pytest)
	f.Add("<testsuite><testcase name='a'><failure/></testcase></testsuite>")
	f.Fuzz(func(t *testing.T, text string) {
		var j JUnit
		if j.Read(strings.NewReader(text)) != nil {
			return
		}
		line := j.Report().Line()
		require.LessOrEqual(t, len(line), MaxLine)
		require.NotContains(t, line, "\n")
		r, err := Parse(line)
		require.NoError(t, err)
		require.Equal(t, len(j.Report().Passed), len(r.Passed))
	})
}

func FuzzLine(f *testing.F) {
	f.Add(Prefix + `{"tests":1,"failed":["a"],"passed":"AAAAAA=="}`)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Parse(line)
		if err != nil {
			return
		}
		again, err := Parse(r.Line())
		require.NoError(t, err)
		require.Equal(t, r.Passed, again.Passed)
		require.LessOrEqual(t, len(r.Failed), maxFailed)
	})
}

package baseline

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestEveryShapeOfAProfileIsTheSameProfile(t *testing.T) {
	want, err := Parse("p", []byte(`{"examples": {"b": {"status": "ok", "duration_s": 1.5, "peak_memory_mb": 3}, "a": {"status": "failed"}}}`))
	require.NoError(t, err)
	require.Len(t, want.Examples, 2)
	require.Equal(t, "1.5", want.Examples[0].Duration.String())
	require.Nil(t, want.Examples[1].Memory)
	for name, data := range map[string]string{
		"list":                                 `[{"name": "b", "status": "ok", "duration_s": 1.5, "peak_memory_mb": 3}, {"name": "a", "status": "failed"}]`,
		"list in examples":                     `{"examples": [{"name": "b", "status": "ok", "duration_s": 1.5, "peak_memory_mb": 3}, {"name": "a", "status": "failed"}]}`,
		"list in results":                      `{"results": [{"duration_s": 1.5, "peak_memory_mb": 3, "status": "ok", "name": "b"}, {"name": "a", "status": "failed"}]}`,
		"object in results":                    `{"results": {"b": {"status": "ok", "duration_s": 1.5, "peak_memory_mb": 3}, "a": {"status": "failed"}}}`,
		"unknown fields":                       `{"schema": [1, {"x": null}], "examples": {"b": {"status": "ok", "duration_s": 1.5, "peak_memory_mb": 3, "gpu": "x", "gpu": "y"}, "a": {"status": "failed", "log": {"deep": [true]}}}}`,
		"other words":                          `{"examples": {"b": {"status": "Success", "duration_s": 15e-1, "peak_memory_mb": 3.0000000001}, "a": {"status": "ERROR", "duration_s": null}}}`,
		"a mark of UTF-8 and lines of Windows": "\ufeff{\"examples\": {\r\n\"b\": {\"status\": \"ok\", \"duration_s\": 1.50, \"peak_memory_mb\": 3}, \"a\": {\"status\": \"failed\"}}}\r\n",
	} {
		got, err := Parse("p", []byte(data))
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

func TestBadInputNamesFileExampleAndField(t *testing.T) {
	for data, want := range map[string]string{
		``:                                 "it is empty",
		` `:                                "it is empty",
		`null`:                             "the file is null; want a list or an object of examples",
		`{}`:                               `it has no "examples" or "results", and is not a list of examples`,
		`{"a": {"status": "ok"}}`:          `it has no "examples" or "results", and is not a list of examples`,
		`{"examples": [], "results": []}`:  `it has both "examples" and "results"; want one of them`,
		`{"examples": [], "examples": []}`: `"examples" is duplicate`,
		`{"examples": 3}`:                  `"examples" is 3; want a list or an object of examples`,
		`[] []`:                            "something follows its end",
		`[{"name": "a"`:                    `example "a": it ends in the middle`,
		"[\n{'a': 1}]":                     "example number 1: it is not JSON: line 2: invalid character '\\''",
		`[{"name": "a",}]`:                 `example "a": it is not JSON: line 1: `,
		`[1]`:                              "example number 1 is 1; want an object",
		`[{"status": "ok"}]`:               "example number 1 has no name",
		`[{"name": 1, "status": "ok"}]`:    "example number 1: name is 1; want a string",
		`[{"name": "", "status": "ok"}]`:   "an example has an empty name",
		`[{"name": "a", "name": "b"}]`:     "example number 1 has name twice",
		`{"examples": {"a": null}}`:        `example "a" is null; want an object`,
		`{"examples": {"a": {"status": "ok"}, "a": {"status": "ok"}}}`:   `example "a" is listed twice`,
		`[{"name": "a", "status": "ok"}, {"name": "a", "status": "ok"}]`: `example "a" is listed twice`,
		`{"examples": {"a": {}}}`:                                     `example "a" has no status`,
		`{"examples": {"a": {"status": true}}}`:                       `example "a": status is true; want a string`,
		`{"examples": {"a": {"status": "okay"}}}`:                     `example "a": status is the string "okay"; want ok, failed or skipped`,
		`{"examples": {"a": {"status": "ok", "status": "failed"}}}`:   `example "a" has status twice`,
		`{"examples": {"a": {"status": "ok", "duration_s": -1}}}`:     `example "a": duration_s is -1; want 0 or more`,
		`{"examples": {"a": {"status": "ok", "duration_s": -1e999}}}`: `example "a": duration_s is -1e999; want 0 or more`,
		`{"examples": {"a": {"status": "ok", "duration_s": "1"}}}`:    `example "a": duration_s is the string "1"; want a number`,
		`{"examples": {"a": {"status": "ok", "duration_s": NaN}}}`:    `example "a": duration_s is NaN; want a number`,
		`[{"name": "a", "status": "ok", "duration_s": -Infinity}]`:    `example "a": duration_s is -Infinity; want a number`,
		`[{"duration_s": Infinity, "name": "a"}]`:                     `example number 1: duration_s is Infinity; want a number`,
		`NaN`: `it is NaN; want a number`,
		`{"examples": {"a": {"status": "ok", "duration_s": 1, "duration_s": 2}}}`:    `example "a" has duration_s twice`,
		`{"examples": {"a": {"status": "ok", "peak_memory_mb": [1]}}}`:               `example "a": peak_memory_mb is a list; want a number`,
		`{"examples": {"a": {"status": "ok", "peak_memory_mb": 1e10}}}`:              `example "a": peak_memory_mb is 1e10; want 1000000000 or less`,
		`{"examples": {"a": {"status": "ok", "peak_memory_mb": 1e999}}}`:             `example "a": peak_memory_mb is 1e999; want 1000000000 or less`,
		`{"examples": {"status": {"status": "ok", "peak_memory_mb": NaN}}}`:          `example "status": peak_memory_mb is NaN; want a number`,
		`{"examples": {"` + "\x1b" + `": {}}}`:                                       `invalid character '\x1b' in string literal`,
		`{"examples": {"\u001b[2J": {}}}`:                                            `example "\x1b[2J" has no status`,
		`{"examples": {"` + strings.Repeat("n", maxName+1) + `": {"status": "ok"}}}`: `its name has 501 bytes; 500 is the limit`,
		`{"x": ` + strings.Repeat("[", 200):                                          "it is more than 100 levels deep",
	} {
		_, err := Parse("new.json", []byte(data))
		require.ErrorContains(t, err, want, data)
		for line := range strings.Lines(err.Error()) {
			require.True(t, strings.HasPrefix(line, "cannot read new.json: "), "%s: %s", data, line)
		}
		require.NotContains(t, err.Error(), "\x1b")
	}
}

func TestEveryProblemOfAFileIsNamedAtOnce(t *testing.T) {
	_, err := Parse("f", []byte(`{"examples": {"a": {"duration_s": -1}, "b": {"status": "ok", "peak_memory_mb": "much"}}}`))
	require.EqualError(t, err, `cannot read f: example "a" has no status
cannot read f: example "a": duration_s is -1; want 0 or more
cannot read f: example "b": peak_memory_mb is the string "much"; want a number`)

	_, err = Parse("f", []byte(`[`+strings.Repeat(`{},`, 99)+`{}]`))
	require.Equal(t, maxProblems, strings.Count(err.Error(), "\n"))
	require.ErrorContains(t, err, "and 90 more problems")
}

// check holds what is true of any profile that was read.
func check(t *testing.T, p Profile) {
	names := map[string]bool{}
	for _, e := range p.Examples {
		require.NotEmpty(t, e.Name)
		require.False(t, names[e.Name], "twice: %q", e.Name)
		names[e.Name] = true
		require.Contains(t, []Status{StatusOK, StatusFailed, StatusSkipped}, e.Status)
		for _, a := range []*Amount{e.Duration, e.Memory} {
			if a != nil {
				require.GreaterOrEqual(t, *a, Amount(0))
				require.LessOrEqual(t, *a, Amount(maxAmount*perUnit))
			}
		}
	}
}

// What a profile may hold, the reports survive: a profile is within any limits of
// itself, and no name changes the shape of a report.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`[{"name": "a", "status": "ok", "duration_s": NaN}]`))
	f.Add([]byte(`{"results": {"a\u2028|": {"status": "skip", "duration_s": 1e-7}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("f", data)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "cannot read f: "))
			return
		}
		check(t, p)
		var zero Amount
		var none Percent
		same := compare(p, p, Limits{DurationPct: &none, Duration: &zero, Memory: &zero})
		require.Zero(t, same.Counts.Gating)
		require.Equal(t, len(p.Examples), same.Counts.Examples)

		all := compare(Profile{File: "n"}, p, Limits{})
		require.True(t, all.OK)
		gone := compare(p, Profile{File: "n"}, Limits{})
		require.Equal(t, len(p.Examples) == 0, gone.OK)
		for _, r := range []Report{same, all, gone} {
			require.True(t, json.Valid([]byte(r.JSON())))
			rows := 0
			for line := range strings.Lines(r.Markdown()) {
				if strings.HasPrefix(line, "|") {
					rows++
					require.Equal(t, 7, strings.Count(line, "|"), line)
				}
			}
			require.Equal(t, 2+len(p.Examples), rows)
			for _, c := range r.Text() + r.Markdown() {
				require.True(t, c == '\n' || unicode.IsPrint(c), fmt.Sprintf("%q", c))
			}
		}
	})
}

// What the unit recorded of the measurement is below the report, and gates nothing.
func TestInvalidProfileIsReported(t *testing.T) {
	const example = `"examples": {"a": {"status": "ok", "duration_s": 1}}`
	for clocks, want := range map[string]string{
		`{"valid": false, "reason": "it was throttled: ppt"}`: "new.json counts for little: it was throttled: ppt",
		`{"valid": false}`:   "new.json counts for little: no reason given",
		`{"valid": true}`:    "",
		`{"valid": "false"}`: "",
		`{}`:                 "",
		`[]`:                 "",
		`{"valid": false, "reason": "` + strings.Repeat("ü", 3000) + `"}`: "new.json counts for little: " + strings.Repeat("ü", maxName/2),
	} {
		old, err := Parse("old.json", []byte(`{`+example+`}`))
		require.NoError(t, err)
		now, err := Parse("new.json", []byte(`{`+example+`, "fixed_clocks": `+clocks+`}`))
		require.NoError(t, err)
		r := compare(old, now, Limits{})
		require.True(t, r.OK)
		require.Equal(t, want, strings.Join(r.Notes, " "), clocks)
	}
}

// Package testreport carries the results of a task's tests to the web in one bounded line of
// the build's output. Concourse's API has the output of a build, and never the files of its
// tasks. The package reads JUnit files, writes the line and reads it again. It never opens a
// file, and it never keeps the message or the output of a test.
package testreport

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
)

// Prefix begins the line. Its number changes with the content.
const Prefix = "junit-results/1 "

// Bounds of a report.
const (
	MaxLine   = 64 << 10 // bytes, with the prefix
	maxFailed = 200      // names
	maxPassed = 8000     // hashes
	maxName   = 200      // characters
)

// Report holds the results of the tests of one task.
type Report struct {
	Failed []string // names in alphabetical order
	// Passed has the hashes of the names in ascending order. Names would make the line long.
	// A report with too many tests keeps the smallest hashes, so each run has the same tests.
	Passed []uint32
	Tests  int // all tests, including skipped ones
}

// wire is the JSON of the line.
type wire struct {
	Tests  int      `json:"tests"`
	Failed []string `json:"failed"`
	Passed string   `json:"passed"` // little-endian uint32 in base64
}

// Clean returns the name of a test as reports have it.
func Clean(name string) string { return sanitize.Line(strings.TrimSpace(name), maxName) }

// hash returns the hash of a clean name.
func hash(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// Has reports whether the report has the test, and whether the test passed.
func (r *Report) Has(name string) (known, passed bool) {
	if r == nil {
		return false, false
	}
	if _, failed := slices.BinarySearch(r.Failed, name); failed {
		return true, false
	}
	_, passed = slices.BinarySearch(r.Passed, hash(name))
	return passed, passed
}

// newReport returns the report of tests by name; true means passed.
func newReport(results map[string]bool, all int) Report {
	r := Report{Tests: all}
	for name, passed := range results {
		if passed {
			r.Passed = append(r.Passed, hash(name))
		} else {
			r.Failed = append(r.Failed, name)
		}
	}
	slices.Sort(r.Failed)
	slices.Sort(r.Passed)
	r.Passed = slices.Compact(r.Passed)
	r.Failed, r.Passed = r.Failed[:min(len(r.Failed), maxFailed)], r.Passed[:min(len(r.Passed), maxPassed)]
	return r
}

// Line returns the line of a report, without a line break. It leaves out the last failed
// names if the line would be too long.
func (r Report) Line() string {
	for {
		packed := make([]byte, 0, 4*len(r.Passed))
		for _, h := range r.Passed {
			packed = binary.LittleEndian.AppendUint32(packed, h)
		}
		text, err := json.Marshal(wire{r.Tests, append([]string{}, r.Failed...), base64.StdEncoding.EncodeToString(packed)})
		if err == nil && len(Prefix)+len(text) <= MaxLine {
			return Prefix + string(text)
		}
		r.Failed = r.Failed[:len(r.Failed)*3/4] // the hashes alone always fit
	}
}

// Parse reads a line. A line that any task can print is outside input, so names are made
// printable again.
func Parse(line string) (Report, error) {
	text, found := strings.CutPrefix(strings.TrimRight(line, "\r\n"), Prefix)
	if !found || len(line) > MaxLine+2 {
		return Report{}, errors.New("it is not a line of results, or too long")
	}
	var w wire
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return Report{}, errors.New("it is not JSON with tests, failed and passed")
	}
	packed, err := base64.StdEncoding.DecodeString(w.Passed)
	switch {
	case err != nil || len(packed)%4 != 0:
		return Report{}, errors.New("passed is not a list of hashes in base64")
	case len(w.Failed) > maxFailed || len(packed) > 4*maxPassed || w.Tests < 0 || w.Tests > maxTests:
		return Report{}, fmt.Errorf("it has more than %d tests, %d failed or %d passed ones", maxTests, maxFailed,
			maxPassed)
	}
	r := Report{Tests: w.Tests}
	for _, name := range w.Failed {
		r.Failed = append(r.Failed, Clean(name))
	}
	for ; len(packed) > 0; packed = packed[4:] {
		r.Passed = append(r.Passed, binary.LittleEndian.Uint32(packed))
	}
	slices.Sort(r.Failed)
	slices.Sort(r.Passed)
	r.Failed = slices.Compact(r.Failed)
	return r, nil
}

// Add adds the tests of another report of the same task. A failed test stays failed.
func (r *Report) Add(o Report) {
	all := func(a, b []string) []string { return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) }
	r.Failed = all(r.Failed, o.Failed)
	r.Failed = r.Failed[:min(len(r.Failed), maxFailed)]
	r.Passed = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Passed, o.Passed))))
	r.Passed = r.Passed[:min(len(r.Passed), maxPassed)]
	r.Tests = min(r.Tests+o.Tests, maxTests)
}

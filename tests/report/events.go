package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
)

// event is one line of `go test -json` (`go doc test2json`); build failures
// come with ImportPath in place of Package.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// suite is one package's tests. Only leaves count: a test with subtests is
// what these are.
type suite struct {
	name                    string
	passed, failed, skipped int
	seconds                 float64
	skips                   []string // "TestX: reason"
	output                  string   // of what failed
}

// read collects the suites from one file of events. Lines that are no events
// come from the go command itself and are kept with the failures.
func read(r io.Reader) ([]*suite, error) {
	suites, outputs, results := map[string]*suite{}, map[string]string{}, map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Action: "build-output", Output: lines.Text() + "\n"}
		}
		pkg := e.Package
		if pkg == "" {
			pkg, _, _ = strings.Cut(e.ImportPath, " ") // "pkg [pkg.test]"
		}
		s := suites[pkg]
		if s == nil {
			s = &suite{name: pkg}
			suites[pkg] = s
		}
		id := pkg + "\x00" + e.Test
		switch e.Action {
		case "output", "build-output":
			outputs[id] += e.Output
		case "pass", "fail", "skip":
			results[id] = e.Action
			if e.Test == "" {
				s.seconds = e.Elapsed
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read test results: %w", err)
	}
	count(suites, outputs, results)
	var all []*suite
	for _, s := range suites {
		if s.passed+s.failed+s.skipped > 0 {
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all, nil
}

func count(suites map[string]*suite, outputs, results map[string]string) {
	parents := map[string]bool{}
	ids := make([]string, 0, len(results))
	for id := range results {
		ids = append(ids, id)
		for i, c := range id {
			if c == '/' && strings.Contains(id[:i], "\x00") {
				parents[id[:i]] = true
			}
		}
	}
	sort.Strings(ids)
	for _, id := range ids {
		pkg, test, _ := strings.Cut(id, "\x00")
		s := suites[pkg]
		if results[id] == "fail" && test != "" {
			s.output += outputs[id]
		}
		if test == "" || parents[id] {
			continue
		}
		switch results[id] {
		case "pass":
			s.passed++
		case "fail":
			s.failed++
		case "skip":
			s.skipped++
			s.skips = append(s.skips, test+": "+reason(outputs[id]))
		}
	}
	// A package that fails without a failed test did not build, paniced, or
	// failed in a parent test only.
	for pkg, s := range suites {
		if results[pkg+"\x00"] == "fail" && s.failed == 0 {
			s.failed++
			s.output += outputs[pkg+"\x00"]
		}
	}
}

// reason takes t.Skip's text out of a test's output: what is between the
// "=== RUN" and "--- SKIP" lines, without file and line.
func reason(output string) string {
	var words []string
	for _, line := range strings.Split(output, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if where, text, ok := strings.Cut(line, ": "); ok && strings.Contains(where, "_test.go:") {
			line = text
		}
		words = append(words, line)
	}
	return strings.Join(words, " ")
}

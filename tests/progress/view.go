package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event holds one line of `go test -json` (`go doc test2json`).
type event struct {
	Time                          time.Time
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// suite holds a package with running tests.
type suite struct {
	running map[string]time.Time
	outputs map[string][]string // of tests that have not passed
}

// view shows events as they come.
type view struct {
	w        io.Writer
	packages map[string]*suite
	ended    int
	shown    bool // something, since the last tick
}

func (v *view) take(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Package == "" {
		if e.Output != "" {
			line = e.Output // of a build
		} else if e.Action != "" {
			return
		}
		v.print(line)
		return
	}
	s := v.packages[e.Package]
	if s == nil {
		s = &suite{map[string]time.Time{}, map[string][]string{}}
		v.packages[e.Package] = s
	}
	switch e.Action {
	case "run":
		s.running[e.Test] = e.Time
	case "output":
		s.outputs[e.Test] = append(s.outputs[e.Test], e.Output)
	case "pass", "skip", "fail":
		delete(s.running, e.Test)
		if e.Action == "fail" && e.Test == "" { // the program ended in these tests
			for _, name := range slices.Sorted(maps.Keys(s.running)) {
				v.print(strings.Join(s.outputs[name], ""))
			}
		}
		if e.Action == "fail" {
			v.print(strings.Join(s.outputs[e.Test], ""))
		} else if e.Test == "" {
			v.end(e, s)
		}
		delete(s.outputs, e.Test)
		if e.Test == "" {
			v.ended++
			delete(v.packages, e.Package)
		}
	}
}

// end shows the line of a package that passed or has no tests.
func (v *view) end(e event, s *suite) {
	lines := s.outputs[""]
	if len(lines) > 0 && e.Action == "pass" {
		v.print(lines[len(lines)-1])
	}
}

// tick shows what is running if nothing more was shown since the last one.
func (v *view) tick(now time.Time) {
	if v.shown {
		v.shown = false
		return
	}
	var running []string
	for _, name := range slices.Sorted(maps.Keys(v.packages)) {
		tests := v.packages[name].running
		if len(tests) == 0 {
			continue
		}
		// The one that started last shows its package.
		last := slices.MaxFunc(slices.Sorted(maps.Keys(tests)), func(a, b string) int { return tests[a].Compare(tests[b]) })
		running = append(running, fmt.Sprintf("%s %s", name[strings.IndexByte(name, '/')+1:], last))
	}
	what := "building"
	if len(running) > 0 {
		what = "running " + strings.Join(running, ", ")
	}
	fmt.Fprintf(v.w, "   %s %d packages done; %s\n", now.Format(time.TimeOnly), v.ended, what)
}

func (v *view) print(text string) {
	if text == "" {
		return
	}
	v.shown = true
	io.WriteString(v.w, strings.TrimRight(text, "\n")+"\n")
}

package testreport

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
)

// Bounds of JUnit files.
const (
	MaxFile  = 64 << 20 // bytes of one file
	maxTests = 200_000  // of all files
	maxDepth = 64
)

// JUnit collects the tests of JUnit files. The zero value is ready.
type JUnit struct {
	results map[string]bool // true: passed
	all     int
}

// testcase holds the test that is being read.
type testcase struct {
	name            string
	depth           int
	failed, skipped bool
}

// Read adds a file. It reads the elements testcase with failure, error and skipped, at any
// depth and with any other content. Entities that a file declares are refused.
func (j *JUnit) Read(r io.Reader) error {
	if j.results == nil {
		j.results = map[string]bool{}
	}
	limited := &io.LimitedReader{R: r, N: MaxFile + 1}
	d := xml.NewDecoder(limited)
	var current *testcase
	found := false
	for depth := 0; ; {
		token, err := d.RawToken()
		switch {
		case limited.N <= 0:
			return fmt.Errorf("it has more than %d bytes", MaxFile)
		case errors.Is(err, io.EOF) && depth == 0 && found:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("it ends too early, or is not XML")
		case err != nil:
			return fmt.Errorf("it is not XML: %w", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			found = true
			if depth++; depth > maxDepth {
				return fmt.Errorf("it has more than %d levels", maxDepth)
			}
			current = j.open(e, depth, current)
		case xml.EndElement:
			if depth--; depth < 0 {
				return errors.New("it is not XML: an element ends twice")
			}
			if current != nil && depth < current.depth {
				if err := j.close(*current); err != nil {
					return err
				}
				current = nil
			}
		}
	}
}

// open returns the current test after an element began.
func (j *JUnit) open(e xml.StartElement, depth int, current *testcase) *testcase {
	switch {
	case current == nil && e.Name.Local == "testcase":
		class, name := "", ""
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "classname":
				class = a.Value
			case "name":
				name = a.Value
			}
		}
		if class != "" && name != "" {
			class += "."
		}
		return &testcase{name: Clean(class + name), depth: depth}
	case current != nil && depth == current.depth+1:
		switch e.Name.Local {
		case "failure", "error":
			current.failed = true
		case "skipped":
			current.skipped = true
		}
	}
	return current
}

// close adds a test. Of several tests with the same name one failed test decides.
func (j *JUnit) close(t testcase) error {
	if j.all++; j.all > maxTests {
		return fmt.Errorf("there are more than %d tests", maxTests)
	}
	if t.name == "" || t.skipped && !t.failed {
		return nil
	}
	passed, seen := j.results[t.name]
	j.results[t.name] = !t.failed && (passed || !seen)
	return nil
}

// Report returns the tests so far.
func (j *JUnit) Report() Report { return newReport(j.results, j.all) }

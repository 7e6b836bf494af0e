package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const module = "github.com/fourdollars/concourse-ci-machine/"

// run prints the table for files of events and returns 1 when a test failed
// or no test ran, 2 when a file can't be read.
func run(files []string, stdout, stderr io.Writer) int {
	var total suite
	var skips, failures []string
	fmt.Fprintf(stdout, "%-34s %7s %7s %8s %9s\n", "suite", "passed", "failed", "skipped", "seconds")
	for _, name := range files {
		suites, err := open(name)
		if err != nil {
			fmt.Fprintln(stderr, "report:", err)
			return 2
		}
		if len(suites) == 0 { // a suite that never started must not look like a pass
			failures = append(failures, name+": no test ran")
			total.failed++
		}
		for _, s := range suites {
			short := strings.TrimPrefix(s.name, module)
			fmt.Fprintf(stdout, "%-34s %7d %7d %8d %9.2f\n", short, s.passed, s.failed, s.skipped, s.seconds)
			total.passed += s.passed
			total.failed += s.failed
			total.skipped += s.skipped
			for _, skip := range s.skips {
				skips = append(skips, short+" "+skip)
			}
			if s.failed > 0 {
				failures = append(failures, short+"\n"+s.output)
			}
		}
	}
	for _, skip := range skips {
		fmt.Fprintln(stdout, "skipped:", skip)
	}
	for _, f := range failures {
		fmt.Fprintln(stdout, "FAILED:", f)
	}
	fmt.Fprintf(stdout, "%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped)
	if total.failed > 0 || total.passed == 0 {
		return 1
	}
	return 0
}

func open(name string) ([]*suite, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot open test results: %w", err)
	}
	defer f.Close()
	return read(f)
}

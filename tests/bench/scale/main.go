// The command scale measures what a hook of a web costs as its workers become
// many: they join one by one, each with the two hooks that Juju runs for it
// (joined, when it has no key yet, and changed, when it has), against the built
// dispatch. At 1, 10, 100... workers one is removed as well, and the hooks that
// belong to no worker run. Every hook tool is a command behind a socket, as with
// Juju; systemd and PostgreSQL are stand-ins. It prints tables and asserts
// nothing. It needs no root.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

func main() {
	if code, done := intercept(); done {
		os.Exit(code)
	}
	workers := flag.Int("workers", 1000, "how many join")
	flag.Parse()
	if err := run(*workers, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure hooks of a web:", err)
		os.Exit(1)
	}
}

// hooks are what is measured, in the order of the tables.
var hooks = []string{"tsa-relation-joined", "tsa-relation-changed", "tsa-relation-departed", "update-status", "config-changed"}

// window is how many joins, the last ones before a stage, make one row.
const window = 10

func run(workers int, out io.Writer) (err error) {
	b, err := newBench()
	if b != nil {
		defer b.close()
	}
	if err != nil {
		return err
	}
	if err := b.converge(); err != nil {
		return err
	}
	var rows []row
	var all total
	joined := map[string][]sample{}
	for n := 1; n <= workers; n++ {
		for _, kind := range []string{"joined", "changed"} {
			s, err := b.join(n, kind)
			if err != nil {
				return err
			}
			all.add(s)
			hook := "tsa-relation-" + kind
			joined[hook] = append(joined[hook], s)
			if len(joined[hook]) > window {
				joined[hook] = joined[hook][1:]
			}
		}
		if !stage(n, workers) {
			continue
		}
		at, err := b.others(n)
		if err != nil {
			return err
		}
		maps.Copy(at, joined)
		for _, hook := range hooks {
			rows = append(rows, row{hook, n, slices.Clone(at[hook])})
		}
		fmt.Fprintf(os.Stderr, "%d of %d workers joined\n", n, workers)
	}
	if err := report(out, rows); err != nil {
		return err
	}
	return all.print(out, workers)
}

// stage is a number of workers that gets its rows: a power of ten, and the end.
func stage(n, last int) bool {
	for n%10 == 0 && n != last {
		n /= 10
	}
	return n == 1 || n == last
}

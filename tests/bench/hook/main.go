// The command hook measures what a hook with nothing to do costs: an update-status of a
// converged ROCm worker. The answers of every command that it makes are recorded once; then
// dispatch runs against stubs that print them, and the floor is a program that makes the
// same calls one after the other and nothing more. All variants run once in each round, in
// random order. It prints a table of medians and asserts nothing. It needs no root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	if code, done := intercept(); done {
		os.Exit(code)
	}
	rounds := flag.Int("rounds", 100, "rounds of all variants")
	flag.Parse()
	if err := run(*rounds, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure a hook:", err)
		os.Exit(1)
	}
}

// warmUp is rounds that are not counted.
const warmUp = 10

// variant is one program and what was measured of it.
type variant struct {
	name  string
	argv  []string
	calls int // commands that it runs
	took  []time.Duration
}

func run(rounds int, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "hook-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir}
	if err := b.build(); err != nil {
		return err
	}
	defer func() {
		if b.world != nil {
			err = errors.Join(err, b.world.Close())
		}
	}()
	if err := b.converge(); err != nil {
		return err
	}
	calls, err := b.record()
	if err != nil {
		return err
	}
	variants := []*variant{
		{name: "start of a program", argv: []string{b.path("floor"), os.DevNull}},
		{name: "floor", argv: []string{b.path("floor"), b.path("calls")}, calls: len(calls)},
		{name: "dispatch", argv: []string{b.path("charm/dispatch")}, calls: len(calls)},
	}
	for i := range warmUp + rounds {
		for _, at := range rand.Perm(len(variants)) {
			took, err := b.measure(variants[at])
			if err != nil {
				return fmt.Errorf("%s: %w", variants[at].name, err)
			}
			if i >= warmUp {
				variants[at].took = append(variants[at].took, took)
			}
		}
	}
	fmt.Fprintf(w, "update-status with nothing to do, medians of %d rounds in random order; each command a stub\n", rounds)
	return report(w, variants)
}

func (b *bench) measure(v *variant) (time.Duration, error) {
	c := exec.Command(v.argv[0], v.argv[1:]...)
	c.Dir, c.Env, c.Stderr = b.path("charm"), b.env, os.Stderr
	start := time.Now()
	err := c.Run()
	return time.Since(start), err
}

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func report(w io.Writer, variants []*variant) error {
	floor := median(variants[1].took)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "variant\tcalls\tms\t/ floor\t")
	for _, v := range variants {
		m := median(v.took)
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t\n", v.name, v.calls, float64(m)/float64(time.Millisecond), float64(m)/float64(floor))
	}
	return t.Flush()
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

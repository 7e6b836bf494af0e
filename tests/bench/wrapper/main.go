// The command wrapper measures runc-amd-wrapper alone: the real runc is a
// program that does nothing, and an exec-only program in Go is the floor. All
// variants run once in each round, in random order. It prints a table of
// medians and asserts nothing. It needs no root; with root, and a temporary
// directory where device nodes may be opened, nodes of mode 0660 are used and
// so the private copies that the wrapper keeps of those.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	rounds := flag.Int("rounds", 60, "rounds of all variants")
	flag.Parse()
	if err := run(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure the wrapper:", err)
		os.Exit(1)
	}
}

func run(rounds int) error {
	dir, err := os.MkdirTemp("", "wrapper-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := setUp(dir)
	if err != nil {
		return err
	}
	variants := b.variants()
	for range rounds {
		if err := b.round(variants); err != nil {
			return err
		}
	}
	for _, v := range variants {
		if err := b.memory(v); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "runc-amd-wrapper"))
	if err != nil {
		return err
	}
	fmt.Printf("runc-amd-wrapper alone, medians of %d rounds in random order; real runc: %s; nodes: %s; config.json %d bytes; binary %d bytes\n",
		rounds, b.runtimeKind, b.nodeKind, len(b.spec), info.Size())
	report(os.Stdout, variants)
	return nil
}

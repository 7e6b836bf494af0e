// The command wrapper measures runc-amd-wrapper alone: the real runc is a
// program that does nothing, and an exec-only program in Go is the floor. All
// variants run once in each round, in random order. It prints a table of
// medians and asserts nothing. It needs no root; with root, and a temporary
// directory where device nodes may be opened, nodes of mode 0660 are used and
// so the private copies that the wrapper keeps of those.
//
// A lease is judged by the whole time of a create, from the call to the end of
// the program in runc's place: that of a task which leases one of 8 GPUs, through
// the wrapper, over that of a task which shares them all; once with all 8 free,
// once with 7 held by runc calls that live. What the lease adds to the time above
// "bare" is printed below, and the same against a task that shares just one GPU,
// whose config.json is edited as little.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

func main() {
	rounds := flag.Int("rounds", 100, "rounds of all variants")
	against := flag.String("against", "", "another build of runc-amd-wrapper, measured in the same rounds")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Measures runc-amd-wrapper against a program that does nothing but become runc.\n"+
			"A leased create is judged by its whole time over that of a shared create; the rest of its ratios is printed, not judged.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*rounds, *against); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure the wrapper:", err)
		os.Exit(1)
	}
}

func run(rounds int, against string) error {
	dir, err := os.MkdirTemp("", "wrapper-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fast, kind := dir, "a disk"
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		if shm, err := os.MkdirTemp("/dev/shm", "wrapper-bench-"); err == nil {
			fast, kind = shm, "a tmpfs"
			defer os.RemoveAll(shm)
		}
	}
	b, err := setUp(dir, fast)
	if err != nil {
		return err
	}
	variants := b.variants()
	if against != "" {
		if err := b.install(other, against); err != nil {
			return err
		}
		variants = append(variants, others(variants)...)
	}
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
	fmt.Printf("runc-amd-wrapper alone, medians of %d rounds in random order; real runc: %s; nodes: %s; bundles on %s; config.json %d bytes, 4 folders; binary %d bytes; %d cores\n",
		rounds, b.runtimeKind, b.nodeKind, kind, len(b.spec), info.Size(), runtime.NumCPU())
	report(os.Stdout, variants, info.Size())
	return nil
}

// The command exporter measures rocm-exporter on synthetic machines of 1, 8 and 64 GPUs,
// beside a floor that is made for each of them in the same run: a net/http server that
// keeps its descriptors, reads with pread and writes the same series by hand, and the same
// with client_golang, which reports what of the exporter's time is the library's. Where
// Debian's prometheus-node-exporter is installed, it is measured too, with its collectors
// drm and hwmon.
//
// Scrapes come one after the other over one connection, without compression; the programs
// take turns in short rounds, and the medians of the rounds are shown. It prints a table,
// and then reports whether the goals hold: at 8 GPUs p50 and CPU at most what the library
// takes, 25 MiB of memory at most, growth from 8 to 64 GPUs at most linear in series. It
// asserts nothing: a busy machine is not a failure. It needs no root and no GPU.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sizes are the numbers of GPUs.
var sizes = []int{1, 8, 64}

func main() {
	rounds := flag.Int("rounds", 15, "rounds of all programs")
	scrapes := flag.Int("scrapes", 100, "scrapes in a round")
	flag.Parse()
	if err := run(*rounds, *scrapes); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure the exporter:", err)
		os.Exit(1)
	}
}

func run(rounds, scrapes int) error {
	dir, err := os.MkdirTemp("", "exporter-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, pkg := range map[string]string{"rocm-exporter": "src/rocm-exporter", "floor": "tests/bench/exporter/floor"} {
		c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "github.com/fourdollars/concourse-ci-machine/"+pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "rocm-exporter"))
	if err != nil {
		return err
	}
	peer, _ := exec.LookPath("prometheus-node-exporter")
	var all []*subject
	for _, n := range sizes {
		subjects, err := measure(dir, peer, n, rounds, scrapes)
		if err != nil {
			return fmt.Errorf("%d GPUs: %w", n, err)
		}
		all = append(all, subjects...)
	}
	fmt.Printf("rocm-exporter: %d bytes; medians of %d rounds of %d scrapes\n", info.Size(), rounds, scrapes)
	if peer == "" {
		fmt.Println("prometheus-node-exporter is not installed: not measured")
	}
	report(os.Stdout, all)
	goals(os.Stdout, all)
	return nil
}

// measure runs all programs on a machine of n GPUs.
func measure(dir, peer string, n, rounds, scrapes int) (subjects []*subject, err error) {
	root := filepath.Join(dir, fmt.Sprintf("machine%d", n))
	if err := synthesize(root, n); err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range subjects {
			s.stop()
		}
	}()
	add := func(name, program string, args ...string) (*subject, error) {
		s, err := start(name, n, program, args...)
		if err == nil {
			subjects = append(subjects, s)
		}
		return s, err
	}
	ours, err := add("rocm-exporter", filepath.Join(dir, "rocm-exporter"), "serve", "--web.listen-address=127.0.0.1:0", "--path.root="+root)
	if err != nil {
		return nil, err
	}
	if err := ours.scrape(); err != nil {
		return nil, err
	}
	plan := filepath.Join(dir, fmt.Sprintf("plan%d.json", n))
	if err := writePlan(plan, root, ours.body.String()); err != nil {
		return nil, err
	}
	if _, err := add("floor", filepath.Join(dir, "floor"), plan); err != nil {
		return nil, err
	}
	if _, err := add("library", filepath.Join(dir, "floor"), plan, "library"); err != nil {
		return nil, err
	}
	if peer != "" {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		if _, err := add("node_exporter", peer, "--collector.disable-defaults", "--collector.drm", "--collector.hwmon",
			"--web.disable-exporter-metrics", "--path.sysfs="+root+"/sys", "--web.listen-address=127.0.0.1:"+port); err != nil {
			return nil, err
		}
	}
	for _, s := range subjects { // no one's first scrapes count
		if err := s.round(scrapes, false); err != nil {
			return nil, err
		}
	}
	for i := range rounds {
		for j := range subjects {
			if err := subjects[(i+j)%len(subjects)].round(scrapes, true); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range subjects {
		if err := s.finish(); err != nil {
			return nil, err
		}
	}
	return subjects, nil
}

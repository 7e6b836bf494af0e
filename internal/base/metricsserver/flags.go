package metricsserver

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
)

// Flags holds a program's command line: the common flags and the program's own.
type Flags struct {
	*flag.FlagSet
	Watchdog time.Duration // 0: none

	listen, config string
	hosts          []string
	version        bool
}

// After a hang, the supervisor's check fails for the third time after 23 s at the earliest.
// It acts only at that failure, so the watchdog must be faster.
const (
	defaultWatchdog = 20 * time.Second
	minWatchdog     = 2 * time.Second
)

// NewFlags declares the common flags of a program that serves on port by default.
func NewFlags(name string, port int) *Flags {
	f := &Flags{}
	f.FlagSet = commandline.New(name, &f.version) // Main prints errors and help
	f.StringVar(&f.listen, "web.listen-address", fmt.Sprintf(":%d", port),
		"`address` to serve on; port 0 takes a free one")
	f.StringVar(&f.config, "web.config.file", "",
		"`file` with TLS and passwords, as of Prometheus' exporters; empty: neither")
	f.Func("web.hosts", "further comma-separated `names` under which browsers and scrapers may reach it; addresses, "+
		"private names and names of the machine are always accepted", func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			f.hosts = append(f.hosts, hostName(strings.TrimSpace(name)))
		}
		return nil
	})
	f.DurationVar(&f.Watchdog, "web.watchdog", defaultWatchdog,
		"`time` without an answer to its own health check that ends the program, 2s or more; 0s: never")
	return f
}

// Process declares the flag for metrics of the program's own process, for Metrics.
func (f *Flags) Process(enabled *bool) {
	f.BoolVar(enabled, "collect.process", false, "add metrics of the program itself: go_ and process_")
}

// Parse parses the command line. The caller passes its error to Main, and runs its own
// checks afterwards.
func (f *Flags) Parse(args []string) error {
	switch err := commandline.FlagError(f.FlagSet, f.FlagSet.Parse(args)); {
	case err != nil:
		return err
	case f.version:
		return commandline.ErrVersion
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument: %s", f.Arg(0))
	case f.Watchdog < 0 || f.Watchdog > 0 && f.Watchdog < minWatchdog:
		return fmt.Errorf("invalid value %s for flag --web.watchdog: at least %s, or 0s", f.Watchdog, minWatchdog)
	}
	return nil
}

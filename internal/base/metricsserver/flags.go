package metricsserver

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Flags holds the common flags of a program.
type Flags struct {
	Watchdog time.Duration // 0: none

	listen, config string
	hosts          []string
}

// DefaultWatchdog ends a program that hangs. The supervisor's check fails for the third time
// after 23 s at the earliest. It acts only at that failure, so the watchdog must be faster.
const DefaultWatchdog = 20 * time.Second

const minWatchdog = 2 * time.Second

// Declare declares the common flags of a program that serves on port by default.
func Declare(fs *pflag.FlagSet, port int) *Flags {
	f := &Flags{}
	fs.StringVar(&f.listen, "web.listen-address", fmt.Sprintf(":%d", port),
		"`address` to serve on; port 0 takes a free one")
	fs.StringVar(&f.config, "web.config.file", "",
		"`file` with TLS and passwords, as of Prometheus' exporters; empty: neither")
	fs.Func("web.hosts", "further comma-separated `names` under which browsers and scrapers may reach it; addresses, "+
		"private names and names of the machine are always accepted", func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			f.hosts = append(f.hosts, hostName(strings.TrimSpace(name)))
		}
		return nil
	})
	fs.DurationVar(&f.Watchdog, "web.watchdog", DefaultWatchdog,
		"`time` without an answer to its own health check that ends the program, 2s or more; 0s: never")
	return f
}

// DeclareProcess declares the flag for metrics of the program's own process, for Metrics.
func DeclareProcess(fs *pflag.FlagSet, enabled *bool) {
	fs.BoolVar(enabled, "collect.process", false, "add metrics of the program itself: go_ and process_")
}

// Check validates the flags.
func (f *Flags) Check() error {
	if f.Watchdog < 0 || f.Watchdog > 0 && f.Watchdog < minWatchdog {
		return fmt.Errorf("invalid value %s for flag --web.watchdog: at least %s, or 0s", f.Watchdog, minWatchdog)
	}
	return nil
}

package exporter

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/exporter/program"
	"concourse-ci-machine/internal/exporter/usage"
)

// options are the command line.
type options struct {
	listen string
	root   string
	// usageWrite is where to write who uses the GPUs, instead of serving anything.
	usageWrite string
	watchdog   time.Duration // 0: none
	version    bool
	collect    Options
}

// parse reads the command line. flag.ErrHelp asks for the usage text.
func parse(args []string) (options, *flag.FlagSet, error) {
	var o options
	fs := flag.NewFlagSet("rocm-exporter", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors and usage are the caller's to print
	fs.StringVar(&o.listen, "web.listen-address", fmt.Sprintf(":%d", agreed.GPUsPort), "`address` to serve on; port 0 takes a free one")
	fs.DurationVar(&o.watchdog, "web.watchdog", defaultWatchdog, "`time` without an answer to its own health check that ends the program, 2s or more; 0s is never")
	fs.StringVar(&o.root, "path.root", "/", "`directory` to read as the machine's root")
	fs.StringVar(&o.collect.Unit, "unit", "", "`name` of the Juju unit, for the page and the API")
	fs.BoolVar(&o.collect.DCGM, "dcgm-aliases", false, "repeat values under the names and units of NVIDIA's exporter")
	fs.BoolVar(&o.collect.PCIeBandwidth, "collect.pcie-bandwidth", true, "read pcie_bw every 30s, in the background, where a GPU has it: it takes a second each time; =false leaves it to others")
	fs.DurationVar(&o.collect.RASInterval, "ras.interval", defaultRAS, "`time` between readings of error counters and limits, 5s or more")
	fs.BoolVar(&o.collect.Usage, "collect.usage", true, "tell which containers use the GPUs; =false leaves processes alone")
	fs.DurationVar(&o.collect.UsageInterval, "usage.interval", defaultUsage, "`time` between looks at the users of the GPUs, 5s or more")
	fs.IntVar(&o.collect.UsageContainers, "usage.containers", usage.DefaultContainers, "`number` of containers to show on each GPU, the rest as one")
	fs.StringVar(&o.collect.UsageReport, "usage.report", "", "`file` below path.root in which a process of root tells who uses the GPUs; empty: look at the processes itself")
	fs.StringVar(&o.usageWrite, "usage.write", "", "serve nothing, but look at the processes and write that `file` below path.root")
	fs.StringVar(&o.collect.Leases, "leases.report", "", "`file` below path.root in which a process of root tells who leases the GPUs; empty: they are not leased")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return o, fs, err
	}
	if fs.NArg() > 0 {
		return o, fs, fmt.Errorf("unexpected argument: %s", fs.Arg(0))
	}
	if o.usageWrite != "" && (!o.collect.Usage || o.collect.UsageReport != "") {
		return o, fs, errors.New("flag -usage.write goes with neither -collect.usage=false nor -usage.report")
	}
	if o.watchdog < 0 || o.watchdog > 0 && o.watchdog < minWatchdog {
		return o, fs, fmt.Errorf("invalid value %s for flag -web.watchdog: at least %s, or 0s", o.watchdog, minWatchdog)
	}
	if o.collect.RASInterval < minRAS {
		return o, fs, fmt.Errorf("invalid value %s for flag -ras.interval: at least %s", o.collect.RASInterval, minRAS)
	}
	if o.collect.UsageInterval < minUsage {
		return o, fs, fmt.Errorf("invalid value %s for flag -usage.interval: at least %s", o.collect.UsageInterval, minUsage)
	}
	if n := o.collect.UsageContainers; n < 1 || n > maxContainers {
		return o, fs, fmt.Errorf("invalid value %d for flag -usage.containers: 1 to %d", n, maxContainers)
	}
	return o, fs, nil
}

// The supervisor's check fails for the third time 23 s after a hang at the
// soonest. It acts only that once, so the watchdog comes first.
const (
	defaultWatchdog = 20 * time.Second
	minWatchdog     = 2 * time.Second
)

// Each reading of the error counters asks the hardware: AMD's own exporter does
// so every 30 s.
const (
	defaultRAS = 30 * time.Second
	minRAS     = 5 * time.Second
)

// A look through 10,000 processes takes tens of milliseconds. Each container has
// about eight series on each GPU.
const (
	defaultUsage  = 15 * time.Second
	minUsage      = 5 * time.Second
	maxContainers = 1000
)

func help(w io.Writer, fs *flag.FlagSet) {
	program.Usage(w, fs, `Usage: rocm-exporter [flags]

Serves the state of this machine's AMD GPUs to Prometheus, read from sysfs, and
who uses them, from /proc. It needs no ROCm, and no privilege but to see other
users' processes, which a second one can have in its place (--usage.write,
--usage.report). It ends with the process that started it, and opens all files
anew at SIGHUP.

`)
}

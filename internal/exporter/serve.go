package exporter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// serveOptions holds the command line of serve.
type serveOptions struct {
	place
	vendors []gpu.Vendor
	unit    string
	links   page.Links
	metrics MetricOptions
	collect monitor.Options
	server  *metricsserver.Flags
}

// newServe returns the command that serves metrics, the API and the page, and the options
// that it fills.
func newServe(version string) (*cobra.Command, *serveOptions) {
	o := &serveOptions{}
	c := &cobra.Command{Use: "serve [flags]", Short: "serve metrics, a status page and JSON", Args: commandline.NoArgs,
		Long: "Serves the state of GPUs and their users: metrics, a status page and JSON. To see other users' processes " +
			"it needs root, or a file from write-gpus. SIGHUP opens all files again.",
		Example: "rocm-exporter serve --web.listen-address=127.0.0.1:9401",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return commandline.Wrong(c, err)
			}
			return o.start(c, o.server, func(stop context.Context, s *metricsserver.Server, root host.Root) error {
				return o.serve(stop, s, root, version)
			})
		}}
	o.declare(c.Flags())
	return c, o
}

func (o *serveOptions) declare(fs *pflag.FlagSet) {
	o.place.declare(fs)
	declareVendor(fs, &o.vendors)
	o.server = metricsserver.Declare(fs, wellknown.GPUsPort)
	fs.StringVar(&o.unit, "unit", "", "`name` of the Juju unit, for the page and the API")
	fs.StringVar(&o.links.Dashboard, "link.dashboard", "", "`URL` of the GPUs' dashboard, for a link on the page")
	fs.StringVar(&o.links.Fleet, "link.fleet", "",
		"`URL` of the page of all workers, for links to it and to builds on the page")
	fs.StringVar(&o.links.Build, "link.build", "",
		"`URL` of the build that has a container, for links on the page; "+page.Handle+
			" in it is the container's handle")
	fs.StringVar(&o.links.Explain, "explain", "",
		"beginning of the `COMMAND` that explains an error by its number, for the page; empty: gpukit explain")
	fs.StringVar(&o.links.Self, "web.external-url", "",
		"`URL` of the page, for dashboards to link to it; empty: no link")
	fs.BoolVar(&o.metrics.DCGM, "dcgm-aliases", false, "repeat values under the names and units of NVIDIA's exporter")
	fs.BoolVar(&o.collect.PCIeBandwidth, "collect.pcie-bandwidth", true,
		"read pcie_bw every 30s, which takes a second")
	fs.DurationVar(&o.collect.RASInterval, "ras.interval", monitor.DefaultRAS,
		"`time` between readings of error counters and limits, 5s or more")
	fs.BoolVar(&o.collect.Usage, "collect.usage", true, "show which containers use the GPUs")
	declareUsage(fs, &o.collect)
	metricsserver.DeclareProcess(fs, &o.metrics.Process)
	for name, report := range map[string]struct {
		path *string
		text string
	}{
		"usage.report":   {&o.collect.UsageReport, "the users of the GPUs, from write-gpus; empty: scan processes"},
		"nvidia.report":  {&o.collect.NVIDIA, "the output of nvidia-smi, from write-gpus; empty: none"},
		"tasks.report":   {&o.collect.Tasks, "the verdicts on tasks, from record-tasks; empty: none"},
		"leases.report":  {&o.collect.Leases, "the leases of the GPUs; empty: none"},
		"service.report": {&o.collect.Service, "the quarantined GPUs; empty: none"},
	} {
		fs.StringVar(report.path, name, "", "`file` below path.root with "+report.text)
	}
	fs.StringVar(&o.collect.Disk, "disk.folder", "",
		"`folder` below path.root on the file system to report; empty: none")
}

// check validates the command line.
func (o *serveOptions) check() error {
	return cmp.Or(o.links.Check(), atLeast("ras.interval", o.collect.RASInterval, minRAS), checkUsage(o.collect),
		o.server.Check())
}

func (o *serveOptions) serve(stop context.Context, s *metricsserver.Server, root host.Root, version string) error {
	o.links.Tasks = o.collect.Tasks != ""
	m := monitor.New(root, monitor.Of(root, o.vendors...), o.collect)
	s.URLs = func() []string { return []string{o.links.Self} }
	if err := s.Listen(); err != nil {
		return err
	}
	go m.Watch(stop)
	go m.Reloads(stop, s.Reload, s.Logs)
	source := &Source{Root: root, Unit: o.unit, Version: version, Links: o.links, Monitor: m}
	return s.Serve(stop, Handler(source, o.metrics))
}

// minRAS is the shortest time between readings of the error counters; see
// monitor.DefaultRAS.
const minRAS = 5 * time.Second

// A scan of 10,000 processes takes tens of milliseconds. Each container has about eight
// series on each GPU.
const (
	defaultUsage  = 15 * time.Second
	minUsage      = 5 * time.Second
	maxContainers = 1000
)

// declareUsage declares the flags of scans for users, for checkUsage.
func declareUsage(fs *pflag.FlagSet, o *monitor.Options) {
	fs.DurationVar(&o.UsageInterval, "usage.interval", defaultUsage,
		"`time` between scans for users of the GPUs, 5s or more")
	fs.IntVar(&o.UsageContainers, "usage.containers", usage.DefaultContainers,
		"`number` of containers to show on each GPU; the rest is one")
}

func checkUsage(o monitor.Options) error {
	if n := o.UsageContainers; n < 1 || n > maxContainers {
		return fmt.Errorf("invalid value %d for flag --usage.containers: 1 to %d", n, maxContainers)
	}
	return atLeast("usage.interval", o.UsageInterval, minUsage)
}

func atLeast(flag string, value, least time.Duration) error {
	if value < least {
		return fmt.Errorf("invalid value %s for flag --%s: at least %s", value, flag, least)
	}
	return nil
}

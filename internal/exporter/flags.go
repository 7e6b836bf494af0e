package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/page"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// options holds the command line.
type options struct {
	root string
	// usageWrite is the file to write the users of the GPUs to, instead of serving
	// anything.
	usageWrite string
	// nvidiaWrite is the file to write the report of nvidia-smi to, instead of serving
	// anything.
	nvidiaWrite string
	vendor      string
	// tasks configures the recorder of tasks, which runs instead of serving anything if
	// tasks.Store.Dir is not empty.
	tasks   recorder.Options
	unit    string
	links   page.Links
	metrics MetricOptions
	collect monitor.Options
	server  *metricsserver.Flags

	checkTasks func() error
}

// newCommand returns the program's command line and the options that it fills.
func newCommand(version string) (*cobra.Command, *options) {
	o := &options{}
	c := &cobra.Command{Use: "rocm-exporter [flags]", Version: version, Args: commandline.NoArgs, Long: help,
		Example: "rocm-exporter --web.listen-address=127.0.0.1:9401",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return commandline.Wrong(c, err)
			}
			return o.server.Run(c, func(stop context.Context, s *metricsserver.Server) error {
				return run(stop, s, version, *o)
			})
		}}
	fs := c.Flags()
	o.server = metricsserver.Declare(fs, wellknown.GPUsPort)
	fs.StringVar(&o.root, "path.root", "/", "`directory` to read as the machine's root")
	fs.StringVar(&o.vendor, "vendor", "all", "`vendor` of the GPUs to watch: amd, nvidia, all or none")
	fs.StringVar(&o.unit, "unit", "", "`name` of the Juju unit, for the page and the API")
	fs.StringVar(&o.links.Dashboard, "link.dashboard", "", "`URL` of the GPUs' dashboard, for a link on the page")
	fs.StringVar(&o.links.Fleet, "link.fleet", "",
		"`URL` of the page of all workers, for links to it and to builds on the page")
	fs.StringVar(&o.links.Build, "link.build", "",
		"`URL` of the build that has a container, for links on the page; "+page.Handle+
			" in it is the container's handle")
	fs.StringVar(&o.links.Self, "web.external-url", "",
		"`URL` of the page, for dashboards to link to it; empty: no link")
	fs.BoolVar(&o.metrics.DCGM, "dcgm-aliases", false, "repeat values under the names and units of NVIDIA's exporter")
	fs.BoolVar(&o.collect.PCIeBandwidth, "collect.pcie-bandwidth", true,
		"read pcie_bw every 30s, which takes a second")
	fs.DurationVar(&o.collect.RASInterval, "ras.interval", monitor.DefaultRAS,
		"`time` between readings of error counters and limits, 5s or more")
	fs.BoolVar(&o.collect.Usage, "collect.usage", true, "show which containers use the GPUs")
	fs.DurationVar(&o.collect.UsageInterval, "usage.interval", defaultUsage,
		"`time` between scans for users of the GPUs, 5s or more")
	metricsserver.DeclareProcess(fs, &o.metrics.Process)
	fs.IntVar(&o.collect.UsageContainers, "usage.containers", usage.DefaultContainers,
		"`number` of containers to show on each GPU; the rest is one")
	fs.StringVar(&o.collect.UsageReport, "usage.report", "",
		"`file` below path.root with the users of the GPUs, from --usage.write; empty: scan processes")
	fs.StringVar(&o.usageWrite, "usage.write", "",
		"only scan processes, and write this `file` below path.root")
	fs.StringVar(&o.collect.NVIDIA, "nvidia.report", "",
		"`file` below path.root with the output of nvidia-smi, from --nvidia.write; empty: none")
	fs.StringVar(&o.nvidiaWrite, "nvidia.write", "",
		"only run nvidia-smi every 15s, and write this `file` below path.root")
	fs.StringVar(&o.collect.Leases, "leases.report", "",
		"`file` below path.root with the leases of the GPUs; empty: none")
	fs.StringVar(&o.collect.Disk, "disk.folder", "",
		"`folder` below path.root on the file system to report; empty: none")
	fs.StringVar(&o.collect.Service, "service.report", "",
		"`file` below path.root with the withheld GPUs; empty: none")
	o.checkTasks = taskFlags(fs, &o.tasks)
	return c, o
}

// check validates the command line.
func (o *options) check() error {
	if err := o.server.Check(); err != nil {
		return err
	}
	if err := o.checkTasks(); err != nil {
		return err
	}
	if err := o.links.Check(); err != nil {
		return err
	}
	if o.usageWrite != "" && (!o.collect.Usage || o.collect.UsageReport != "") {
		return errors.New("flag --usage.write goes with neither --collect.usage=false nor --usage.report")
	}
	if o.nvidiaWrite != "" && (o.usageWrite != "" || o.collect.NVIDIA != "") {
		return errors.New("flag --nvidia.write goes with neither --usage.write nor --nvidia.report")
	}
	if vendorsOf(o.vendor) == nil {
		return fmt.Errorf("invalid value %q for flag --vendor: amd, nvidia, all or none", o.vendor)
	}
	if o.collect.RASInterval < minRAS {
		return fmt.Errorf("invalid value %s for flag --ras.interval: at least %s", o.collect.RASInterval, minRAS)
	}
	if o.collect.UsageInterval < minUsage {
		return fmt.Errorf("invalid value %s for flag --usage.interval: at least %s",
			o.collect.UsageInterval, minUsage)
	}
	if n := o.collect.UsageContainers; n < 1 || n > maxContainers {
		return fmt.Errorf("invalid value %d for flag --usage.containers: 1 to %d", n, maxContainers)
	}
	if o.usageWrite != "" && o.server.Watchdog > 0 {
		o.server.Watchdog += o.collect.UsageInterval // each scan extends it
	}
	if o.nvidiaWrite != "" && o.server.Watchdog > 0 {
		o.server.Watchdog += nvidiagpu.Longest
	}
	return nil
}

// vendorsOf returns the vendors of a value of --vendor, nil for an invalid value.
func vendorsOf(name string) (of []gpu.Vendor) {
	if name == "none" {
		return []gpu.Vendor{}
	}
	for _, v := range gpu.Vendors() {
		if name == "all" || name == string(v) {
			of = append(of, v)
		}
	}
	return of
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

const help = "Serves metrics of this machine's AMD and NVIDIA GPUs to Prometheus, and the users of AMD GPUs. It needs no " +
	"ROCm. To see other users' processes it needs root, or a second exporter with root (--usage.write). Another " +
	"one runs nvidia-smi (--nvidia.write). It ends with its parent process. SIGHUP opens all files again."

package exporter

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

// newWriteUsage returns the command that scans processes for serve, which may not.
func newWriteUsage() *cobra.Command {
	var at place
	var vendors []gpu.Vendor
	collect := monitor.Options{Usage: true}
	c := &cobra.Command{Use: "write-usage FILE [flags]", Short: "write the users of the GPUs to a file, as root",
		Long: "Scans processes for users of the GPUs, as root, and writes FILE below path.root, which serve reads " +
			"(--usage.report). It serves nothing.",
		Example: "rocm-exporter write-usage /run/gpu-usage.json",
		Args:    oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkUsage(collect); err != nil {
				return commandline.Wrong(c, err)
			}
			every := collect.UsageInterval // each scan extends the watchdog
			f := &metricsserver.Flags{Watchdog: metricsserver.DefaultWatchdog + every}
			return at.start(c, f, func(stop context.Context, s *metricsserver.Server, root host.Root) error {
				m := monitor.New(root, monitor.Of(root, vendors...), collect)
				return repeat(stop, every, s.Postpone, func() error { return m.ReportUsers(stop, args[0]) })
			})
		}}
	at.declare(c.Flags())
	declareVendor(c.Flags(), &vendors)
	declareUsage(c.Flags(), &collect)
	return c
}

// newWriteNVIDIA returns the command that runs nvidia-smi for serve, which may not.
func newWriteNVIDIA() *cobra.Command {
	var at place
	c := &cobra.Command{Use: "write-nvidia FILE [flags]", Short: "write the output of nvidia-smi to a file",
		Long: "Runs nvidia-smi every 15s and writes FILE below path.root, which serve reads (--nvidia.report). It " +
			"serves nothing.",
		Example: "rocm-exporter write-nvidia /run/gpu-nvidia.json",
		Args:    oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			f := &metricsserver.Flags{Watchdog: metricsserver.DefaultWatchdog + nvidiagpu.Longest}
			return at.start(c, f, func(stop context.Context, s *metricsserver.Server, root host.Root) error {
				w := nvidiagpu.NewWatcher(host.Host{Root: root, Runner: host.Exec{}, Clock: host.WallClock{}})
				return repeat(stop, nvidiagpu.Every, s.Postpone, func() error { return w.Write(stop, args[0]) })
			})
		}}
	at.declare(c.Flags())
	return c
}

// oneArg returns an error unless a command has its one argument.
func oneArg(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return commandline.WrongArgs(c, args)
}

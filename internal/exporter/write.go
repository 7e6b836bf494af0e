package exporter

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

// commandTime bounds the command of write-gpus. It ends before the next reading.
const commandTime = 5 * time.Second

// newWriteGPUs returns the owner of the GPUs. It reads and judges them for other programs,
// and goes on without them.
func newWriteGPUs() *cobra.Command {
	var at place
	var vendors []gpu.Vendor
	var collect monitor.Options
	users := ""
	c := &cobra.Command{Use: "write-gpus FILE [flags] [-- COMMAND]",
		Short: "read and judge the GPUs, and write their state to a file, as root",
		Long: fmt.Sprintf("Reads and judges the GPUs every %s as root, writes FILE below path.root, and runs COMMAND. "+
			"With --usage.report and --nvidia.report it also writes their users and the output of nvidia-smi, for serve.",
			api.ReadPeriod),
		Example: "rocm-exporter write-gpus /run/gpus.json --usage.report=/run/gpu-usage.json",
		Args: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); dash < 0 && len(args) == 1 || dash == 1 && len(args) > 1 {
				return nil
			}
			return commandline.WrongArgs(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkUsage(collect); err != nil {
				return commandline.Wrong(c, err)
			}
			collect.Usage = users != ""
			// Each reading extends the watchdog.
			f := &metricsserver.Flags{Watchdog: metricsserver.DefaultWatchdog + api.ReadPeriod}
			return at.start(c, f, func(stop context.Context, s *metricsserver.Server, root host.Root) error {
				m := monitor.New(root, monitor.Of(root, vendors...), collect)
				go m.FollowKernel(stop)
				failed := make(chan error, 2)
				beside := func(every time.Duration, write func() error) {
					go func() { failed <- repeat(stop, every, func() error { return nil }, write) }()
				}
				if users != "" {
					// After a first report without users, tasks would get GPUs that other programs
					// use as soon as free ones. A scan that hangs must not hide the GPUs' state.
					first, scanned := context.WithTimeout(stop, api.Timeout)
					beside(collect.UsageInterval, func() error {
						defer scanned()
						return m.ReportUsers(stop, users)
					})
					<-first.Done()
				}
				if smi := collect.NVIDIA; smi != "" {
					w := nvidiagpu.NewWatcher(host.Host{Root: root, Runner: host.Exec{}, Clock: host.WallClock{}})
					beside(nvidiagpu.Every, func() error { return w.Write(stop, smi) })
				}
				then := follower{argv: args[1:], logs: s.Logs}
				return repeat(stop, api.ReadPeriod, s.Postpone, func() error {
					if err := m.WriteReport(args[0]); err != nil {
						return err
					}
					then.run(stop)
					select {
					case err := <-failed:
						return err
					default:
						return nil
					}
				})
			})
		}}
	at.declare(c.Flags())
	declareVendor(c.Flags(), &vendors)
	declareUsage(c.Flags(), &collect)
	c.Flags().StringVar(&users, "usage.report", "", "`file` below path.root for the users of the GPUs; empty: none")
	c.Flags().StringVar(&collect.NVIDIA, "nvidia.report", "",
		"`file` below path.root for the output of nvidia-smi, which runs every 15s; empty: none")
	return c
}

// follower runs a command after each reading.
type follower struct {
	argv   []string
	logs   *log.Logger
	failed string // the last failure
}

// run runs the command and logs its output. It logs a failure that repeats once.
func (f *follower) run(ctx context.Context) {
	if len(f.argv) == 0 {
		return
	}
	out, err := host.Exec{}.Run(ctx, host.Command{Argv: f.argv, Deadline: commandTime})
	for line := range strings.Lines(string(out)) {
		f.logs.Print(strings.TrimSpace(line))
	}
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != f.failed && failed != "" {
		f.logs.Print(failed)
	}
	f.failed = failed
}

// oneArg returns an error unless a command has its one argument.
func oneArg(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return commandline.WrongArgs(c, args)
}

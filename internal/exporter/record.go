package exporter

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// The limits of the recorder. The charm's option task-record-size has the same default.
const (
	defaultRecordSize = 512 // MiB
	recordAge         = 7 * 24 * time.Hour
)

// newRecordTasks returns the command that records tasks.
func newRecordTasks() *cobra.Command {
	var at place
	var o recorder.Options
	var size int64
	c := &cobra.Command{Use: "record-tasks FOLDER [flags]", Short: "record the tasks of Concourse's worker, as root",
		Long: "Records the tasks of this machine's Concourse worker in FOLDER below path.root, as root, and writes why " +
			"they failed to a file, which serve reads (--tasks.report). It serves nothing.",
		Example: "rocm-exporter record-tasks /var/lib/tasks --report=/run/task-verdicts.json",
		Args:    oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			if size < 1 {
				return commandline.Wrong(c, errors.New("flag --size needs at least 1"))
			}
			o.Limits = taskrecord.Limits{Bytes: size << 20, Age: recordAge, FailedAge: 4 * recordAge}
			f := &metricsserver.Flags{Watchdog: metricsserver.DefaultWatchdog}
			return at.start(c, f, func(stop context.Context, s *metricsserver.Server, root host.Root) error {
				o.Root, o.Store.Dir, o.Log, o.Alive = root, root.Path(args[0]), s.Logs.Printf, s.Postpone
				r, err := recorder.New(o)
				if err != nil {
					return err
				}
				return r.Run(stop)
			})
		}}
	fs := c.Flags()
	at.declare(fs)
	fs.Int64Var(&size, "size", defaultRecordSize, "`MiB` of all records")
	fs.StringVar(&o.Volumes, "volumes", "", "`folder` on the disk of the worker's volumes")
	fs.StringVar(&o.Report, "report", "", "`file` below path.root for the verdicts; empty: none")
	fs.StringVar(&o.Usage, "usage.report", "",
		"`file` below path.root with the users of the GPUs, from write-gpus, which divides the energy of shared GPUs")
	return c
}

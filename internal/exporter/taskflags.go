package exporter

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// The defaults of the recorder, which are those of the charm's options, too.
const (
	defaultTasksSize = 512 // MiB
	defaultTasksDays = 7

	maxCO2 = 10_000 // grams in a kWh; coal has about 1000
)

// taskFlags adds the flags of the recorder of tasks. The result checks them after parsing.
func taskFlags(fs *pflag.FlagSet, o *recorder.Options) (check func() error) {
	fs.StringVar(&o.Store.Dir, "tasks.record", "",
		"only record the tasks of this machine's Concourse worker in this `folder` below path.root, as root")
	size := fs.Int64("tasks.size", defaultTasksSize, "`MiB` of all records of tasks")
	days := fs.Int("tasks.days", defaultTasksDays,
		"`days` that records of tasks are kept; four times as long if the task failed")
	fs.StringVar(&o.Volumes, "tasks.volumes", "", "`folder` on the disk of the worker's volumes")
	fs.StringVar(&o.Report, "tasks.report", "",
		"`file` below path.root with the verdicts on tasks, from --tasks.record; empty: none")
	fs.Float64Var(&o.CO2GramsPerKWh, "tasks.carbon", 0,
		"`grams` of CO2 in a kWh, for the energy of tasks; 0: not shown")
	return func() error {
		if !(o.CO2GramsPerKWh >= 0 && o.CO2GramsPerKWh <= maxCO2) {
			return fmt.Errorf("flag --tasks.carbon needs 0 to %d", maxCO2)
		}
		if *size < 1 || *days < 1 {
			return errors.New("flags --tasks.size and --tasks.days need at least 1")
		}
		age := time.Duration(*days) * 24 * time.Hour
		o.Limits = taskrecord.Limits{Bytes: *size << 20, Age: age, FailedAge: taskrecord.FailedFactor * age}
		return nil
	}
}

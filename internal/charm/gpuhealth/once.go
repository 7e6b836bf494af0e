package gpuhealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
)

// Read reads the GPUs once. It returns even if a GPU hangs, but its process cannot end
// before the kernel returns: see NewReader.
func Read(r host.Root) api.Report { return monitor.New(r, monitor.All(r), monitor.Options{}).Report() }

// scanPause is the time between the two scans of ReadReport. Busy shares need two.
const scanPause = time.Second

// ReadReport reads the GPUs and their users once, as the exporter would. It returns even if
// a GPU hangs, but its process cannot end then: see NewReader. Without root, it sees
// only the caller's processes.
func ReadReport(ctx context.Context, r host.Root) api.Report {
	m := monitor.New(r, monitor.All(r), monitor.Options{Usage: true, UsageInterval: usageAge})
	m.ScanUsers(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(scanPause):
	}
	m.ScanUsers(ctx)
	return m.Report()
}

// usageAge bounds the age of a scan in ReadReport.
const usageAge = 15 * time.Second

// readTimeout is longer than ReadReport takes.
const readTimeout = 3 * api.Deadline

// NewReader returns a function that runs argv, a process that writes ReadReport as JSON. A
// GPU that hangs blocks that process and not this one, which Juju waits for.
func NewReader(r host.Runner, c wellknown.Commands, argv ...string) func(context.Context) (api.Report, error) {
	return func(ctx context.Context) (report api.Report, err error) {
		out, err := r.Run(ctx, host.Command{Argv: argv, ReadOnly: true, Deadline: readTimeout})
		if command, ok := errors.AsType[*host.CommandError](err); ok && command.Timeout > 0 {
			err = fmt.Errorf("reading the GPUs does not end within %s: one hangs; see %s", command.Timeout,
				c.Explain(2))
		}
		if err != nil {
			return report, err
		}
		if json.Unmarshal(out, &report) != nil {
			return report, fmt.Errorf("cannot read the answer of %q", strings.Join(argv, " "))
		}
		if len(report.GPUs) == 0 {
			err = errors.New("this machine has no GPU")
		}
		return report, err
	}
}

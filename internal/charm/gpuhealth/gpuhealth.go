// Package gpuhealth reads the health of a unit's GPUs: from the exporter, which watches
// them, or once from the driver, without a history.
package gpuhealth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// State describes the health of one GPU in the action gpu-health.
type State struct {
	Index     int          `json:"index"` // the number in gpu-device-ids
	Name      string       `json:"name"`
	PCI       string       `json:"pci"`
	Partition int          `json:"partition"`
	State     health.State `json:"state"`
	Score     *float64     `json:"score"` // 0 to 100; null if the state is unknown
	Reason    string       `json:"reason"`
	Codes     []int        `json:"codes"` // of explain-error, for the reason
}

// SeeCodes refers to the explanation of errors.
func SeeCodes(c wellknown.Commands, codes []int) string {
	if len(codes) == 0 {
		return ""
	}
	return " (see " + c.Explain(codes...) + ")"
}

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

// States extracts the health from the exporter's list.
func States(all []api.Status) (out []State) {
	for _, s := range all {
		g := State{Index: s.Index, Name: Printable(s.Name), PCI: Printable(s.PCI), Partition: s.Partition,
			State: health.State(cmp.Or(Printable(string(s.Health.State)), string(health.Unknown))),
			Score: s.Health.Score, Reason: cmp.Or(
				Printable(s.Health.Reason), "nothing is known of it"), Codes: knownCodes(s.Health.Codes)}
		out = append(out, g)
	}
	return out
}

// knownCodes returns the codes that explain-error has.
func knownCodes(codes []int) []int {
	known := []int{}
	for _, n := range codes {
		if n >= 1 && n <= 8 {
			known = append(known, n)
		}
	}
	return known
}

package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// GPUHealth writes the state of each GPU of this unit. Partitions of a GPU with equal health
// share two lines. It fails if a GPU is critical. If the GPUs were read once, it notes that
// the past is unknown.
func (c *Actions) GPUHealth(ctx context.Context, w io.Writer, f term.Format) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	if len(inv.GPUs) == 0 {
		return errors.New("cannot judge GPU health: no GPU detected")
	}
	report, once, err := c.report(ctx)
	if err != nil {
		return fmt.Errorf("cannot judge GPU health: %w", err)
	}
	if err := writeHealth(w, f, report, once); err != nil {
		return err
	}
	var critical []string
	number := 0
	for _, alike := range foldHealth(report.GPUs) {
		s := alike[0]
		if s.Health.State == health.Critical {
			number += len(alike)
			critical = append(critical, fmt.Sprintf("GPU %s: %s%s", healthLabel(alike), s.Health.Reason,
				gpuhealth.SeeCodes(f.Commands, s.Health.Codes)))
		}
	}
	if len(critical) > 0 {
		return fmt.Errorf("cannot rely on %d of %d GPUs: %s", number, len(report.GPUs), strings.Join(critical, "; "))
	}
	return nil
}

// foldHealth groups adjacent partitions of one GPU with equal health.
func foldHealth(all []api.Status) (out [][]api.Status) {
	for i, s := range all {
		if i > 0 && s.Partition > 0 && s.Index == all[i-1].Index+1 && equalHealth(s, all[i-1]) {
			out[len(out)-1] = all[i-len(out[len(out)-1]) : i+1]
			continue
		}
		out = append(out, all[i:i+1])
	}
	return out
}

func equalHealth(a, b api.Status) bool {
	return a.PCI == b.PCI && a.Name == b.Name && reflect.DeepEqual(a.Health, b.Health)
}

// healthLabel returns the index of a GPU, or the range of its partitions.
func healthLabel(alike []api.Status) string {
	first, last := alike[0].Index, alike[len(alike)-1].Index
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// writeHealth writes a report. once is why the GPUs were read once, or "".
func writeHealth(w io.Writer, f term.Format, report api.Report, once string) error {
	if f.JSON {
		return term.JSON(w, struct {
			GPUs []api.Status `json:"gpus"`
			Once string       `json:"read_once,omitempty"`
		}{withoutPage(report.GPUs), once})
	}
	var b strings.Builder
	folded, width := foldHealth(report.GPUs), 2
	for _, alike := range folded {
		width = max(width, len(healthLabel(alike)))
	}
	for _, alike := range folded {
		s, partitions := alike[0], ""
		if len(alike) > 1 {
			partitions = fmt.Sprintf("  %d partitions", len(alike))
		}
		score := "-"
		if s.Health.Score != nil {
			score = fmt.Sprintf("%.0f", *s.Health.Score)
		}
		fmt.Fprintf(&b, "GPU %-*s  %s  %3s  %s  %s%s\n        %s%s\n", width, healthLabel(alike),
			f.Column(term.StateColour(s.Health.State), string(s.Health.State), 8), score,
			s.Name, s.PCI, partitions, s.Health.Reason, gpuhealth.SeeCodes(f.Commands, s.Health.Codes))
	}
	if once != "" {
		fmt.Fprintf(&b, "read once, without history: %s\n", once)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// withoutPage removes what only the page shows.
func withoutPage(all []api.Status) []api.Status {
	for i := range all {
		all[i].History, all[i].Explained = nil, nil
	}
	return all
}

package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
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
	states := gpuhealth.States(report.GPUs)
	if err := writeHealth(w, f, states, once); err != nil {
		return err
	}
	var critical []string
	number := 0
	for _, alike := range foldHealth(states) {
		s := alike[0]
		if s.State == health.Critical {
			number += len(alike)
			critical = append(critical, fmt.Sprintf("GPU %s: %s%s", healthLabel(alike), s.Reason,
				gpuhealth.SeeCodes(f.Commands, s.Codes)))
		}
	}
	if len(critical) > 0 {
		return fmt.Errorf("cannot rely on %d of %d GPUs: %s", number, len(states), strings.Join(critical, "; "))
	}
	return nil
}

// foldHealth groups adjacent partitions of one GPU with equal health.
func foldHealth(states []gpuhealth.State) (out [][]gpuhealth.State) {
	for i, s := range states {
		if i > 0 && s.Partition > 0 && s.Index == states[i-1].Index+1 && equalHealth(s, states[i-1]) {
			out[len(out)-1] = states[i-len(out[len(out)-1]) : i+1]
			continue
		}
		out = append(out, states[i:i+1])
	}
	return out
}

func equalHealth(a, b gpuhealth.State) bool {
	score := a.Score == b.Score || a.Score != nil && b.Score != nil && *a.Score == *b.Score
	return score && a.PCI == b.PCI && a.Name == b.Name && a.State == b.State && a.Reason == b.Reason &&
		slices.Equal(a.Codes, b.Codes)
}

// healthLabel returns the index of a GPU, or the range of its partitions.
func healthLabel(alike []gpuhealth.State) string {
	first, last := alike[0].Index, alike[len(alike)-1].Index
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// writeHealth writes the states. once is why the GPUs were read once, or "".
func writeHealth(w io.Writer, f term.Format, states []gpuhealth.State, once string) error {
	if f.JSON {
		return term.JSON(w, struct {
			GPUs []gpuhealth.State `json:"gpus"`
			Once string            `json:"read_once,omitempty"`
		}{append([]gpuhealth.State{}, states...), once})
	}
	var b strings.Builder
	folded, width := foldHealth(states), 2
	for _, alike := range folded {
		width = max(width, len(healthLabel(alike)))
	}
	for _, alike := range folded {
		s, partitions := alike[0], ""
		if len(alike) > 1 {
			partitions = fmt.Sprintf("  %d partitions", len(alike))
		}
		score := "-"
		if s.Score != nil {
			score = fmt.Sprintf("%.0f", *s.Score)
		}
		fmt.Fprintf(&b, "GPU %-*s  %s  %3s  %s  %s%s\n        %s%s\n", width, healthLabel(alike),
			f.Column(term.StateColour(s.State), string(s.State), 8), score,
			s.Name, s.PCI, partitions, s.Reason, gpuhealth.SeeCodes(f.Commands, s.Codes))
	}
	if once != "" {
		fmt.Fprintf(&b, "read once, without history: %s\n", once)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

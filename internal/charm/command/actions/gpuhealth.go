package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/health"
)

// GPUHealth writes the state of each GPU of this unit, and fails if a GPU is critical. The
// states come from the exporter, which watches the GPUs. If the exporter does not answer,
// GPUHealth reads the GPUs once, and notes that the past is unknown.
func (c *Actions) GPUHealth(ctx context.Context, w io.Writer, f term.Format) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	if len(inv.GPUs) == 0 {
		return errors.New("cannot judge GPU health: no GPU detected")
	}
	source, why := "exporter", ""
	states, err := gpuhealth.FromExporter(ctx, c.Host, c.ExporterURL)
	if err != nil {
		source, why = "reading", err.Error()
		read := c.ReadStates
		if read == nil {
			read = func(context.Context) ([]gpuhealth.State, error) { return gpuhealth.Read(c.Host.Root), nil }
		}
		if states, err = read(ctx); err != nil {
			return fmt.Errorf("cannot judge GPU health: %s, and %w", why, err)
		}
	}
	markWithoutKFD(states, inv)
	if err := writeHealth(w, f, states, source, why); err != nil {
		return err
	}
	var critical []string
	for _, s := range states {
		if s.State == health.Critical {
			critical = append(critical, fmt.Sprintf("GPU %d: %s%s", s.Index, s.Reason, gpuhealth.SeeCodes(s.Codes)))
		}
	}
	if len(critical) > 0 {
		return fmt.Errorf("cannot rely on %d of %d GPUs: %s", len(critical), len(states), strings.Join(critical, "; "))
	}
	return nil
}

// markWithoutKFD makes GPUs that compute through KFD critical if no program here can compute on them. The
// exporter does not judge that: it watches the GPU, and /dev/kfd belongs to the machine.
func markWithoutKFD(states []gpuhealth.State, inv gpu.Inventory) {
	if inv.KFD.Usable() {
		return
	}
	for i := range states {
		s := &states[i]
		if !slices.ContainsFunc(
			inv.GPUsOf(gpu.VendorWith(gpu.KFDNode)),
			func(g gpu.GPU) bool { return g.PCI == s.PCI && g.Partition == s.Partition },
		) {
			continue
		}
		reason := fmt.Sprintf("no program can compute on it: %s (%s)", inv.KFD.Text(), inv.KFD.Help())
		if s.State != health.Healthy {
			reason += "; " + s.Reason
		}
		s.State, s.Score, s.Reason = health.Critical, new(float64), reason
	}
}

func writeHealth(w io.Writer, f term.Format, states []gpuhealth.State, source, why string) error {
	if f.JSON {
		return term.JSON(w, struct {
			Source string            `json:"source"` // exporter, or reading: without a history
			GPUs   []gpuhealth.State `json:"gpus"`
		}{source, append([]gpuhealth.State{}, states...)})
	}
	var b strings.Builder
	for _, s := range states {
		score := "-"
		if s.Score != nil {
			score = fmt.Sprintf("%.0f", *s.Score)
		}
		fmt.Fprintf(
			&b, "GPU %-2d  %s  %3s  %s  %s\n        %s%s\n", s.Index,
			f.Column(term.StateColour(s.State), string(s.State), 8), score,
			s.Name, s.PCI, s.Reason, gpuhealth.SeeCodes(s.Codes))
	}
	if source == "reading" {
		fmt.Fprintf(&b, "read once, without what happened before: %s\n", why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package charm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"concourse-ci-machine/internal/exporter"
	"concourse-ci-machine/internal/exporter/health"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/version"
)

// GPUState is one AMD GPU as gpu-health tells of it.
type GPUState struct {
	Index     int          `json:"index"` // the number that gpu-device-ids takes
	Name      string       `json:"name"`
	PCI       string       `json:"pci"`
	Partition int          `json:"partition"`
	State     health.State `json:"state"`
	Score     *float64     `json:"score"` // 0 to 100; null where the state is unknown
	Reason    string       `json:"reason"`
	Codes     []int        `json:"codes"` // what explain-error has on the reason
}

// GPUHealth writes the state of each AMD GPU of this unit, and fails where one
// is critical. It has it from the exporter, which has watched the GPUs; where
// that does not answer, from one reading of its own, which knows nothing of
// the past and says so.
func (c *Charm) GPUHealth(ctx context.Context, w io.Writer, f Format) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	if len(inv.Of(gpu.AMD)) == 0 {
		return errors.New("cannot judge GPU health: no AMD GPU detected; of other vendors' GPUs nothing is known")
	}
	source, why := "exporter", ""
	states, err := c.exporterStates(ctx)
	if err != nil {
		source, why = "reading", err.Error()
		read := c.ReadStates
		if read == nil {
			read = func(context.Context) ([]GPUState, error) { return ReadStates(c.Host.Root), nil }
		}
		if states, err = read(ctx); err != nil {
			return fmt.Errorf("cannot judge GPU health: %s, and %w", why, err)
		}
	}
	if err := writeHealth(w, f, states, source, why); err != nil {
		return err
	}
	var critical []string
	for _, s := range states {
		if s.State == health.Critical {
			critical = append(critical, fmt.Sprintf("GPU %d: %s%s", s.Index, s.Reason, seeCodes(s.Codes)))
		}
	}
	if len(critical) > 0 {
		return fmt.Errorf("cannot rely on %d of %d GPUs: %s", len(critical), len(states), strings.Join(critical, "; "))
	}
	return nil
}

func writeHealth(w io.Writer, f Format, states []GPUState, source, why string) error {
	if f.JSON {
		return writeJSON(w, struct {
			Source string     `json:"source"` // exporter, or reading: without the past
			GPUs   []GPUState `json:"gpus"`
		}{source, append([]GPUState{}, states...)})
	}
	var b strings.Builder
	for _, s := range states {
		score := "-"
		if s.Score != nil {
			score = fmt.Sprintf("%.0f", *s.Score)
		}
		fmt.Fprintf(&b, "GPU %-2d  %s  %3s  %s  %s\n        %s%s\n", s.Index, f.column(stateColour(s.State), string(s.State), 8), score,
			s.Name, s.PCI, s.Reason, seeCodes(s.Codes))
	}
	if source == "reading" {
		fmt.Fprintf(&b, "read once, without what happened before: %s\n", why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// seeCodes points to the explanations.
func seeCodes(codes []int) string {
	if len(codes) == 0 {
		return ""
	}
	texts := make([]string, len(codes))
	for i, n := range codes {
		texts[i] = fmt.Sprint(n)
	}
	return " (see explain-error " + strings.Join(texts, ", ") + ")"
}

// ReadStates reads the GPUs once. Where one hangs it returns all the same, but
// its process can't end before the kernel lets go: see NewReader.
func ReadStates(r host.Root) []GPUState {
	return statesOf(exporter.NewCollector(r, exporter.AMD(r), version.Version, exporter.Options{RASInterval: exporter.Deadline}).Status())
}

// readTime is more than ReadStates takes.
const readTime = 3 * exporter.Deadline

// NewReader runs argv, a process that writes ReadStates as JSON, so that a GPU
// that hangs costs that process and not this one, which Juju waits for.
func NewReader(r host.Runner, argv ...string) func(context.Context) ([]GPUState, error) {
	return func(ctx context.Context) ([]GPUState, error) {
		out, err := r.Run(ctx, host.Command{Argv: argv, ReadOnly: true, Deadline: readTime})
		var command *host.CommandError
		switch {
		case errors.As(err, &command) && command.Timeout > 0:
			return nil, fmt.Errorf("reading the GPUs does not end within %s: one hangs; see explain-error 2", command.Timeout)
		case err != nil:
			return nil, err
		}
		var states []GPUState
		if err := json.Unmarshal(out, &states); err != nil {
			return nil, fmt.Errorf("cannot read the answer of %q: %w", strings.Join(argv, " "), err)
		}
		return states, nil
	}
}

// WriteStates is what NewReader reads.
func WriteStates(w io.Writer, states []GPUState) error { return writeJSON(w, states) }

func statesOf(all []exporter.Status) (out []GPUState) {
	for _, s := range all {
		g := GPUState{Index: s.Index, Name: printable(s.Name), PCI: printable(s.PCI), Partition: s.Partition,
			State: health.State(cmp.Or(printable(string(s.Health.State)), string(health.Unknown))),
			Score: s.Health.Score, Reason: cmp.Or(printable(s.Health.Reason), "nothing is known of it"), Codes: exporter.Codes(s.Health)}
		out = append(out, g)
	}
	return out
}

package flakes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/jsonlist"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// Bounds on the verdicts of one worker.
const (
	maxAnswer = 4 << 20 // bytes
	maxText   = 300     // characters of a reason
	maxGPUs   = 64      // of one task
)

// entry decodes an element of a worker's /api/v1/verdicts: one ended task.
type entry struct {
	Handle string      `json:"handle"`
	Ended  time.Time   `json:"ended"`
	Exit   *int        `json:"exit"`
	Kind   flake.Cause `json:"kind"`   // "" for a task that succeeded
	Reason string      `json:"reason"` // code of a rule
	Text   string      `json:"text"`
	GPUs   names       `json:"gpus"`
}

// names keeps the first names of GPUs.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(data []byte) (err error) {
	*n, err = jsonlist.First[string](data, maxGPUs)
	return err
}

// decode decodes a worker's verdicts. It leaves out those of impossible tasks and kinds.
func decode(r io.Reader) ([]entry, error) {
	var all []entry
	n := 0
	err := jsonlist.Read(r, maxAnswer, func(d *json.Decoder) error {
		var e entry
		switch n++; {
		case n > verdict.MaxEntries:
			return fmt.Errorf("it has more than %d", verdict.MaxEntries)
		case d.Decode(&e) != nil:
			return errors.New("one is not the JSON of a verdict")
		}
		if e.clean() {
			all = append(all, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("its answer is not a list of verdicts: %w", err)
	}
	return all, nil
}

// clean makes the texts printable. It returns false for an impossible verdict.
func (e *entry) clean() bool {
	known := e.Kind == "" || e.Kind == flake.ByTask || e.Kind == flake.Unclear || e.Kind.Infrastructure()
	if !wellknown.IsHandle(e.Handle) || !known {
		return false
	}
	e.Text = sanitize.Line(strings.TrimSpace(e.Text), maxText)
	if !slices.ContainsFunc(verdict.Rules, func(r verdict.Rule) bool { return r.Code == e.Reason }) {
		e.Reason = ""
	}
	for i := range e.GPUs {
		e.GPUs[i] = sanitize.Line(e.GPUs[i], 64)
	}
	return true
}

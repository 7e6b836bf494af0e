package quarantine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// maxReason bounds an operator's reason, because it is in the output of builds.
const maxReason = 200

// Quarantine returns the record after an operator quarantined a GPU.
func (r Record) Quarantine(name, reason string, at time.Time) (Record, error) {
	r = r.clone()
	g := r.Find(name)
	reason = strings.TrimSpace(reason)
	switch {
	case g == nil:
		return r, fmt.Errorf("cannot quarantine GPU %s: it is not known", name)
	case reason == "":
		return r, errors.New("cannot quarantine a GPU without a reason: builds that are refused show it")
	case utf8.RuneCountInString(reason) > maxReason ||
		strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return r, fmt.Errorf("cannot quarantine a GPU for that reason: want one line of at most %d characters",
			maxReason)
	case r.Policy == Off:
		return r, errors.New("cannot quarantine a GPU: gpu-quarantine=off; set it to manual or auto first")
	case g.QuarantinedBy == ByHand:
		return r, fmt.Errorf("cannot quarantine GPU %d: it %s; return it first to give another reason",
			g.Index, g.Text())
	}
	g.move(Quarantined, reason, at)
	g.QuarantinedBy, g.Fault, g.CommonCause, g.ManualReturn, g.CriticalSince = ByHand, nil, false, false, nil
	return r, nil
}

// Return returns the record after an operator returned a GPU, and its active faults. These
// are acknowledged, and only others quarantine it again. A missing GPU is removed from the
// record.
func (r Record) Return(name string, at time.Time) (Record, []health.Fault, error) {
	r = r.clone()
	g := r.Find(name)
	switch {
	case g == nil:
		return r, nil, fmt.Errorf("cannot return GPU %s: it is not known", name)
	case g.State == InService:
		return r, nil, fmt.Errorf("cannot return GPU %d: it has been in service since %s", g.Index,
			g.Since.UTC().Format(stamp))
	}
	standing := g.ActiveFaults
	if slices.ContainsFunc(standing, func(f health.Fault) bool { return f.Kind == missing }) {
		r.GPUs = slices.DeleteFunc(r.GPUs, func(g GPU) bool { return g.Name == name })
		return r, standing, nil
	}
	g.move(InService, "returned by hand", at)
	g.Acknowledged, g.Strikes = slices.Clone(standing), nil
	g.Idle, g.DirtySince, g.Memory = nil, nil, nil // the memory in use now is its idle level
	return r, standing, nil
}

package quarantine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"concourse-ci-machine/internal/gpu/health"
)

// maxReason bounds what a person gives as the reason: it is in the output of builds.
const maxReason = 200

// Withhold is the record after a person withheld a GPU of it.
func (r Record) Withhold(name, reason string, at time.Time) (Record, error) {
	r = r.clone()
	g := r.Find(name)
	reason = strings.TrimSpace(reason)
	switch {
	case g == nil:
		return r, fmt.Errorf("cannot withhold GPU %s: it is not known", name)
	case reason == "":
		return r, errors.New("cannot withhold a GPU without a reason: builds that are refused show it")
	case utf8.RuneCountInString(reason) > maxReason || strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return r, fmt.Errorf("cannot withhold a GPU for that reason: want one line of at most %d characters", maxReason)
	case r.Policy == Off:
		return r, errors.New("cannot withhold a GPU: gpu-quarantine=off; set it to manual or auto first")
	case g.By == ByHand:
		return r, fmt.Errorf("cannot withhold GPU %d: it %s; return it first to give another reason", g.Index, g.Text())
	}
	g.move(Withheld, reason, at)
	g.By, g.Fault, g.Together, g.Person, g.Critical = ByHand, nil, false, false, nil
	return r, nil
}

// Return is the record after a person returned a GPU, and which of its faults stand all
// the same. These are acknowledged: others withhold it again. A GPU that is gone is
// forgotten.
func (r Record) Return(name string, at time.Time) (Record, []health.Fault, error) {
	r = r.clone()
	g := r.Find(name)
	switch {
	case g == nil:
		return r, nil, fmt.Errorf("cannot return GPU %s: it is not known", name)
	case g.State == InService:
		return r, nil, fmt.Errorf("cannot return GPU %d: it is in service since %s", g.Index, g.Since.UTC().Format(stamp))
	}
	standing := g.Standing
	if slices.ContainsFunc(standing, func(f health.Fault) bool { return f.Kind == gone }) {
		r.GPUs = slices.DeleteFunc(r.GPUs, func(g GPU) bool { return g.Name == name })
		return r, standing, nil
	}
	g.move(InService, "returned by hand", at)
	g.Acknowledged, g.Strikes = slices.Clone(standing), nil
	g.Idle, g.Dirty = nil, nil // what is in use now is its level
	return r, standing, nil
}

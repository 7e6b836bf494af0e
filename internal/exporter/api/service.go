package api

import (
	"fmt"
	"time"

	"concourse-ci-machine/internal/pool/quarantine"
)

// Service is whether tasks get a GPU, as package quarantine decided.
type Service struct {
	State quarantine.State `json:"state"`
	Since time.Time        `json:"since"`        // of the state
	Why   string           `json:"why"`          // it came to the state; by hand, what the person said
	By    quarantine.Actor `json:"by,omitempty"` // who withholds it; missing in service
}

// serviceOf is nil where nothing was decided.
func serviceOf(g *quarantine.GPU) *Service {
	if g == nil {
		return nil
	}
	return &Service{g.State, g.Since.UTC(), g.Reason, g.QuarantinedBy}
}

// Out reports whether no new task gets the GPU.
func (s Status) Out() bool {
	return s.Service != nil && s.Service.State != quarantine.InService
}

// Text says since when, and why: "since 2026-08-01 14:03:05 UTC: hangs or is in reset".
func (s Service) Text() string {
	text := "since " + s.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	if s.By == quarantine.ByHand {
		text += " by hand"
	}
	return text + ": " + s.Why
}

// outText counts the GPUs that no new task gets, "" where there is none: each partition
// is given by itself.
func outText(all []Status, noun string) (text string) {
	counts := map[quarantine.State]int{}
	for i := range all {
		if all[i].Out() {
			counts[all[i].Service.State]++
		}
	}
	for _, state := range []quarantine.State{quarantine.Quarantined, quarantine.Proving} {
		if n := counts[state]; n > 0 {
			text += fmt.Sprintf("; %d %s%s", n, noun, state)
		}
	}
	return text
}

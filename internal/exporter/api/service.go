package api

import (
	"fmt"
	"time"

	"concourse-ci-machine/internal/pool/quarantine"
)

// Service shows whether tasks get a GPU, as package quarantine decided.
type Service struct {
	State quarantine.State `json:"state"`
	Since time.Time        `json:"since"`        // start of the state
	Why   string           `json:"why"`          // reason of the state; by hand, text of the person
	By    quarantine.Actor `json:"by,omitempty"` // who quarantined the GPU; missing in service
}

// serviceOf returns nil without a decision.
func serviceOf(g *quarantine.GPU) *Service {
	if g == nil {
		return nil
	}
	return &Service{g.State, g.Since.UTC(), g.Reason, g.QuarantinedBy}
}

// Excluded reports whether the GPU is excluded from new tasks.
func (s Status) Excluded() bool {
	return s.Service != nil && s.Service.State != quarantine.InService
}

// Text returns the start and the reason: "since 2026-08-01 14:03:05 UTC: hangs or is in
// reset".
func (s Service) Text() string {
	text := "since " + s.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	if s.By == quarantine.ByHand {
		text += " by hand"
	}
	return text + ": " + s.Why
}

// excludedText counts the GPUs that are excluded from new tasks, "" without any. Each partition
// is leased separately.
func excludedText(all []Status, noun string) (text string) {
	counts := map[quarantine.State]int{}
	for i := range all {
		if all[i].Excluded() {
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

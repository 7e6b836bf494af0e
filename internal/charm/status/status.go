// Package status makes the status of a unit from causes. A cause has a kind, and a text that
// names the remedy. The package imports no other package of the charm.
package status

import (
	"slices"
	"strings"
)

// Kind names one of Juju's workload states.
type Kind string

// The workload states that a charm can set.
const (
	Blocked     Kind = "blocked" // only the operator can help
	Waiting     Kind = "waiting" // it resolves without the operator
	Maintenance Kind = "maintenance"
	Active      Kind = "active"
)

// Cause holds a reason for a state, with its remedy.
type Cause struct {
	Kind Kind
	Text string
}

// Status holds a state and its text in `juju status`.
type Status struct {
	Kind    Kind
	Message string
}

// Of returns the worst state of the causes, with the texts of all causes, worst first.
// Causes that are Active are warnings. If there are only warnings, the unit is active, and
// its text begins with ready.
func Of(ready string, causes []Cause) Status {
	order := []Kind{Blocked, Waiting, Maintenance, Active}
	sorted := slices.Clone(causes)
	slices.SortStableFunc(sorted, func(a, b Cause) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	kind, texts := Active, []string{}
	if len(sorted) > 0 {
		kind = sorted[0].Kind
	}
	if kind == Active {
		texts = append(texts, ready)
	}
	for _, c := range sorted {
		if !slices.Contains(texts, c.Text) {
			texts = append(texts, c.Text)
		}
	}
	return Status{kind, strings.Join(texts, "; ")}
}

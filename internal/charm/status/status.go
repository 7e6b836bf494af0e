// Package status is what juju status shows of a unit, made from causes with a
// kind and a text that says what to do. It imports nothing of the charm.
package status

import (
	"slices"
	"strings"
)

// Kind is one of Juju's workload states, the best last.
type Kind string

// The workload states that a charm can set.
const (
	Blocked     Kind = "blocked" // only the operator can help
	Waiting     Kind = "waiting" // it will come right by itself
	Maintenance Kind = "maintenance"
	Active      Kind = "active"
)

// Cause is one reason for a state, with what to do about it.
type Cause struct {
	Kind Kind
	Text string
}

// Status is what `juju status` shows.
type Status struct {
	Kind    Kind
	Message string
}

// Of is the worst of the causes, with every cause named, worst first.
// Without a cause that keeps the unit from working it is active with ready
// as its text. Causes that are Active are remarks: they follow the text.
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

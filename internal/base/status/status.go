// Package status makes the status of a unit from causes. A cause is data: a short text, its
// details and commands. Only this package joins them to the message of `juju status`. It
// never decides which causes a unit has.
package status

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
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
	Kind   Kind   `json:"kind"`
	Text   string `json:"text"`             // the problem, short enough for a status
	Detail string `json:"detail,omitempty"` // more facts, only for check-status
	// Commands are what to run, in order, each after its place or reason:
	// "on the LXD host run: lxc restart c1".
	Commands []string `json:"commands,omitempty"`
}

// Block returns a cause that only the operator can remove.
func Block(format string, args ...any) Cause { return causeOf(Blocked, format, args) }

// Wait returns a cause that ends without the operator.
func Wait(format string, args ...any) Cause { return causeOf(Waiting, format, args) }

// Warn returns a cause of a unit that works.
func Warn(format string, args ...any) Cause { return causeOf(Active, format, args) }

// Warnings returns a cause of a unit that works for each text.
func Warnings(texts []string) (causes []Cause) {
	for _, text := range texts {
		causes = append(causes, Warn("%s", text))
	}
	return causes
}

func causeOf(kind Kind, format string, args []any) Cause {
	return Cause{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Explain returns the cause with a detail.
func (c Cause) Explain(format string, args ...any) Cause {
	c.Detail = fmt.Sprintf(format, args...)
	return c
}

// Run returns the cause with one more command, which the reader runs as it is.
func (c Cause) Run(command string) Cause { return c.Fix("run: " + command) }

// Fix returns the cause with more commands. Each begins with its place or reason.
func (c Cause) Fix(commands ...string) Cause {
	c.Commands = slices.Concat(c.Commands, commands)
	return c
}

// As returns the cause with another kind.
func (c Cause) As(kind Kind) Cause {
	c.Kind = kind
	return c
}

// Describe returns the problem with its detail.
func (c Cause) Describe() string {
	if c.Detail == "" {
		return c.Text
	}
	return c.Text + ": " + c.Detail
}

// String returns the whole cause in one line, for errors and logs.
func (c Cause) String() string { return withCommands(c.Describe(), c.Commands) }

func withCommands(text string, commands []string) string {
	return strings.Join(append([]string{text}, commands...), " — ")
}

// Sorted returns the causes without duplicates, the worst kind first. Causes of one kind
// keep their order.
func Sorted(causes []Cause) (sorted []Cause) {
	for _, kind := range []Kind{Blocked, Waiting, Maintenance, Active} {
		for _, c := range causes {
			if c.Kind == kind && !slices.ContainsFunc(sorted, func(s Cause) bool { return s.Text == c.Text }) {
				sorted = append(sorted, c)
			}
		}
	}
	return sorted
}

// Status holds a state and its text in `juju status`.
type Status struct {
	Kind    Kind
	Message string
}

// Limit bounds the characters of a message, and maxNamed the causes in it. A text is cut to
// leastCut characters or more if a shorter ready text makes space.
const (
	Limit    = 120
	maxNamed = 2
	leastCut = 48
)

// Of returns the worst state of the causes, and a message of at most Limit characters. It
// names at most maxNamed causes, the worst first. If it lacks any text of a cause, it ends
// with the command that shows everything. Causes that are Active are warnings. If there are
// only warnings, the unit is active, and its message begins with the first text of ready
// that leaves space for a warning, or with the last one.
func Of(showAll string, ready []string, causes []Cause) Status {
	sorted := Sorted(causes)
	kind, m := Active, message{causes: sorted, all: showAll}
	if len(sorted) > 0 {
		kind = sorted[0].Kind
	}
	if kind != Active || len(ready) == 0 {
		ready = []string{""}
	}
	least := min(1, len(sorted))
	for _, lead := range ready {
		for _, commands := range []bool{true, false} {
			for named := min(maxNamed, len(sorted)); named >= least; named-- {
				text := m.text(lead, named, commands)
				if utf8.RuneCountInString(text) <= Limit {
					return Status{kind, text}
				}
			}
		}
	}
	end := m.suffix(least)
	lead := ready[len(ready)-1]
	for _, longer := range ready {
		if Limit-utf8.RuneCountInString(longer+"; "+end) >= leastCut {
			lead = longer
			break
		}
	}
	whole, _ := strings.CutSuffix(m.text(lead, least, false), end)
	return Status{kind, Cut(whole, Limit-utf8.RuneCountInString(end)) + end}
}

// message holds the parts of a status.
type message struct {
	causes []Cause
	all    string // the command that shows all causes
}

// text returns the message with the first causes. With commands it has all commands of
// these causes.
func (m message) text(lead string, named int, commands bool) string {
	var parts []string
	if lead != "" {
		parts = append(parts, lead)
	}
	whole := named == len(m.causes)
	for _, c := range m.causes[:named] {
		text := c.Text
		if commands {
			text = withCommands(text, c.Commands)
		}
		parts = append(parts, text)
		whole = whole && c.Detail == "" && (commands || len(c.Commands) == 0)
	}
	if whole {
		return strings.Join(parts, "; ")
	}
	return strings.Join(parts, "; ") + m.suffix(named)
}

// suffix returns the end of a message that names some of the causes.
func (m message) suffix(named int) string {
	if more := len(m.causes) - named; more > 0 {
		return fmt.Sprintf("; and %d more: %s", more, m.all)
	}
	return "; more: " + m.all
}

// Cut returns the beginning of a text with at most limit characters.
func Cut(text string, limit int) string {
	const mark = "..."
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:max(0, limit-len(mark))]) + mark
}

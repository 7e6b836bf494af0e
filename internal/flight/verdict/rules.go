package verdict

import "slices"

// Rule connects a sign in the record with a reason. Docs has a table of the rules, made
// from these fields.
type Rule struct {
	Code   string
	Kind   Kind
	When   string // the condition, in the terms that the page explains
	Source string // why the sign means that: a page or file of Linux, without its folder
	Fix    string
	// FixRun replaces Fix for a run or container, which has no build and no worker; "" if
	// Fix fits.
	FixRun string
	slows  bool // it slows a task down: it decides if the task was stopped
	find   func(*facts) []finding
}

// Rules has the surest sign first. A rule of the kind task comes before the weaker signs
// that the same cause makes, such as a limit of memory before the stall of memory.
var Rules = slices.Concat(machineRules, gpuRules, gpuMemoryRules, memoryRules, concourseRules, slowRules,
	networkRules, exitRules)

// one returns a finding if a condition is met.
func one(met bool, f finding) []finding {
	if !met {
		return nil
	}
	return []finding{f}
}

const runAgain = "Run it again."

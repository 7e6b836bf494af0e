package why

import "testing"

const heldBack = "heldback.txt"

// TestHeldBackCases holds the goals against the cases that were written before the rules were
// read. No rule is tuned to them.
func TestHeldBackCases(t *testing.T) {
	requireGoals(t, readCases(t, "testdata/"+heldBack))
}

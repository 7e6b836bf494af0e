package why

import "testing"

// TestHeldBackCases reports the cases that were written before the rules were read. No rule is
// tuned to them, so the table is the result, whatever it is.
func TestHeldBackCases(t *testing.T) {
	text, _ := table(judge(t, readCases(t, "heldback.txt")))
	t.Log(text)
}

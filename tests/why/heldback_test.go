package why

import "testing"

const heldBack = "heldback.txt"

// TestHeldBackCases reports the cases that were written before the rules were read. No rule is
// tuned to them, so the table is the result, whatever it is.
func TestHeldBackCases(t *testing.T) {
	text, _ := table(judge(t, readCases(t, "testdata/"+heldBack)))
	t.Log(text)
}

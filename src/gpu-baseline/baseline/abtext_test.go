package baseline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader looks for the reasons only if there are some.
func TestReportOfABHasItsReasonsOnlyIfAnExampleIsWorse(t *testing.T) {
	for reason, heading := range map[string]bool{"": false, "duration +25 %": true} {
		c := Compared{Name: "matmul"}
		if reason != "" {
			c.Reasons = []string{reason}
		}
		text := ABReport{Examples: []Compared{c}}
		for _, out := range []string{text.Text(), text.Markdown()} {
			if heading {
				require.Contains(t, out, "What exceeds the limits")
				require.Contains(t, out, reason)
			} else {
				require.NotContains(t, out, "What exceeds the limits")
			}
		}
	}
}

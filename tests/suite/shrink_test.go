package suite

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailedStepsAreShrunkToThoseThatMatter(t *testing.T) {
	steps := []int{5, 1, 7, 2, 8, 8, 3, 9, 4}
	tests := map[string]struct {
		needs []int
		want  []int
	}{
		"the last alone":        {nil, []int{4}},
		"one before the last":   {[]int{1}, []int{1, 4}},
		"two with some between": {[]int{5, 9}, []int{5, 9, 4}},
		"all that differ":       {[]int{5, 1, 7, 2, 8, 3, 9}, []int{5, 1, 7, 2, 8, 3, 9, 4}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Shrink(steps, func(part []int) bool {
				for _, n := range tt.needs {
					if !slices.Contains(part, n) {
						return false
					}
				}
				return true
			})
			require.Equal(t, tt.want, got)
			require.Equal(t, []int{5, 1, 7, 2, 8, 8, 3, 9, 4}, steps, "the steps are left as they are")
		})
	}
}

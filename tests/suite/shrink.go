package suite

import "slices"

// Shrink returns a short part of steps with which fails still returns true, in the same order.
// It leaves out ever smaller runs of steps while the rest fails. The last step stays, because
// the failure was seen after it.
func Shrink[S any](steps []S, fails func([]S) bool) []S {
	for size := (len(steps) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at+size < len(steps); {
			rest := slices.Delete(slices.Clone(steps), at, at+size)
			if fails(rest) {
				steps = rest
			} else {
				at += size
			}
		}
	}
	return steps
}

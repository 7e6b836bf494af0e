package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/gpu/health"
)

// Kinds of faults besides those of package health, which judges one reading of a GPU
// that is there.
const (
	gone     health.Kind = "gone"       // the exporter lists it no more
	notInKFD health.Kind = "not_in_kfd" // KFD knew it and does not any more: no task can compute on it
	lowScore health.Kind = "low_score"  // critical, and the exporter does not say for what

	proofFailed health.Kind = "proof_failed" // Value is what gpu-proof ended with
	proofLate   health.Kind = "proof_late"   // Limit is the time that it has, in seconds
)

// AllAtOnce is the one cause of faults that all GPUs of a unit met at the same look.
const AllAtOnce = "all GPUs at once: driver or machine"

// gates are the kinds that withhold a GPU at once. All else withholds only where it
// makes the GPU critical for a time.
var gates = []health.Kind{health.Hang, health.Unreadable, health.UncorrectableErrors, health.BadPages, gone, notInKFD, leaked, noNode}

func isGate(f health.Fault) bool { return slices.Contains(gates, f.Kind) }

// inWords says a fault in words.
func inWords(f health.Fault) string {
	switch f.Kind {
	case gone:
		return "is gone: the exporter lists it no more"
	case notInKFD:
		return "the kernel's KFD does not know it any more"
	case lowScore:
		return "its health is critical"
	case leaked:
		return fmt.Sprintf("%.1f GiB of its memory are in use and no task has it", f.Value/(1<<30))
	case noNode:
		if f.File == string(NodeStuck) {
			return "its driver does not come back when its node is opened"
		}
		return "its node can't be opened: " + f.File
	case blamed:
		return fmt.Sprintf("%g different tasks in a row met faults on it", f.Value)
	case failures:
		return fmt.Sprintf("%g of its last %g tasks ended badly, unlike those of other GPUs", f.Value, f.Limit)
	case proofFailed:
		return fmt.Sprintf("gpu-proof ended with %.0f", f.Value)
	case proofLate:
		return fmt.Sprintf("gpu-proof did not end within %s", time.Duration(f.Limit*float64(time.Second)))
	}
	return f.Text()
}

// Code is the number of the error by which explain-error tells what to do about what
// withholds the GPU, 1 to 8; 0 where there is none.
func (g *GPU) Code() int {
	if g.State == InService || g.By != ByHealth || g.Fault == nil || slices.Contains([]health.Kind{gone, notInKFD, lowScore, leaked, noNode, blamed, failures, proofFailed, proofLate}, g.Fault.Kind) {
		return 0
	}
	return g.Fault.Code()
}

// Texts says faults in words.
func Texts(faults []health.Fault) string {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = inWords(f)
	}
	return strings.Join(texts, "; ")
}

// standing are the faults of a GPU that count: its gates, and all that is wrong where
// it is critical. A warning withholds nothing.
func (s Seen) standing(before GPU) (faults []health.Fault) {
	for _, f := range s.Faults {
		if isGate(f) || s.State == health.Critical {
			faults = append(faults, f)
		}
	}
	silent := func(f health.Fault) bool { return f.Kind == health.Unreadable || f.Kind == health.Hang }
	if !s.Up && !slices.ContainsFunc(faults, silent) {
		faults = append(faults, health.Fault{Kind: health.Unreadable})
	}
	if f, fails := s.Node.fault(); fails {
		faults = append(faults, f)
	}
	if s.GFX == "" && before.GFX != "" {
		faults = append(faults, health.Fault{Kind: notInKFD})
	}
	if s.State == health.Critical && len(faults) == 0 {
		faults = append(faults, health.Fault{Kind: lowScore})
	}
	return faults
}

// covers reports whether somebody who acknowledged a knew of f. One more error, or
// another sign of a hang, is a new fault; so is another number of errors, as fewer of
// them were counted anew. How hot a GPU is, is not.
func covers(a, f health.Fault) bool {
	if a.Kind != f.Kind {
		return false
	}
	switch f.Kind {
	case health.UncorrectableErrors, health.BadPages:
		return a.Value == f.Value
	case health.Reset: // of a day: the number falls by itself
		return a.Value >= f.Value
	case health.Hang:
		return !slices.ContainsFunc(f.Signals, func(s string) bool { return !slices.Contains(a.Signals, s) })
	}
	return true
}

// part makes of what stands: which acknowledgements still have a fault, and which
// faults nobody acknowledged.
func part(acknowledged, standing []health.Fault) (kept, fresh []health.Fault) {
	for _, f := range standing {
		i := slices.IndexFunc(acknowledged, func(a health.Fault) bool { return covers(a, f) })
		if i < 0 {
			fresh = append(fresh, f)
			continue
		}
		kept = append(kept, acknowledged[i])
	}
	return kept, fresh
}

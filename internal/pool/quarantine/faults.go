package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
)

// Kinds of faults in addition to those of package health, which judges a single reading of
// an existing GPU.
const (
	missing  health.Kind = "gone"       // readings no longer find it
	notInKFD health.Kind = "not_in_kfd" // KFD listed it and no longer does: no task can compute on it
	lowScore health.Kind = "low_score"  // critical, without a reported reason

	healthCheckFailed health.Kind = "health_check_failed" // Value is the exit status of gpu-health-check
	healthCheckLate   health.Kind = "health_check_late"   // Limit is its deadline, in seconds
)

// AllAtOnce is the common cause of faults that all GPUs of a unit had at the same look.
const AllAtOnce = "all GPUs at once: driver or machine"

// gates lists the kinds that quarantine a GPU at once. Other kinds do so only if they make
// the GPU critical for some time.
var gates = []health.Kind{health.Hang, health.Unreadable, health.NoCompute, health.UncorrectableErrors,
	health.BadPages, missing, notInKFD, leaked, noNode}

// Curable reports whether a reset of the GPU can end the fault.
func Curable(f health.Fault) bool {
	return slices.Contains([]health.Kind{health.Hang, leaked, noNode}, f.Kind)
}

func isGate(f health.Fault) bool { return slices.Contains(gates, f.Kind) }

// endangers reports whether a gate can harm a task that has the GPU. Without compute only
// new tasks fail, because a running one has its nodes open.
func endangers(f health.Fault) bool {
	return isGate(f) && f.Kind != health.NoCompute && f.Kind != notInKFD
}

// describe returns a fault in words.
func describe(f health.Fault) string {
	switch f.Kind {
	case missing:
		return "is missing: readings no longer find it"
	case notInKFD:
		return "the kernel's KFD no longer lists it"
	case lowScore:
		return "its health is critical"
	case leaked:
		return units.FormatGiB(f.Value) + " of its memory are in use and no task has it"
	case noNode:
		if f.File == string(NodeStuck) {
			return "its driver does not come back when its node is opened"
		}
		return "its node can't be opened: " + f.File
	case blamed:
		return fmt.Sprintf("%g different tasks in a row had faults on it", f.Value)
	case failures:
		text := fmt.Sprintf("%g different tasks crash only on it", f.Value)
		return strings.Join(append([]string{text}, f.Signals...), ", and ")
	case hangs:
		return fmt.Sprintf("%g runs in a row hung on it, and their programs run well on others", f.Value)
	case healthCheckFailed:
		return fmt.Sprintf("gpu-health-check ended with %.0f", f.Value)
	case healthCheckLate:
		return fmt.Sprintf("gpu-health-check did not end within %s", time.Duration(f.Limit*float64(time.Second)))
	}
	return f.Text()
}

// Code returns the number of the explain-error entry for the fault that quarantines the
// GPU, 1 to 8, and 0 if it has none.
func (g *GPU) Code() int {
	if g.State == InService || g.QuarantinedBy != ByHealth || g.Fault == nil ||
		slices.Contains([]health.Kind{missing, notInKFD, lowScore, leaked, noNode, blamed, failures, hangs,
			healthCheckFailed, healthCheckLate}, g.Fault.Kind) {
		return 0
	}
	return g.Fault.Code()
}

// DescribeFaults returns faults in words.
func DescribeFaults(faults []health.Fault) string {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = describe(f)
	}
	return strings.Join(texts, "; ")
}

// activeFaults returns the faults that can quarantine a GPU: gates, and all faults of a
// critical GPU. A warning quarantines no GPU.
func (s Reading) activeFaults(before GPU) (faults []health.Fault) {
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
	compute := func(f health.Fault) bool { return f.Kind == health.NoCompute }
	if s.GFX == "" && before.GFX != "" && !slices.ContainsFunc(faults, compute) {
		faults = append(faults, health.Fault{Kind: notInKFD})
	}
	if s.State == health.Critical && len(faults) == 0 {
		faults = append(faults, health.Fault{Kind: lowScore})
	}
	return faults
}

// covers reports whether the acknowledgement of a includes f. One more error, or another
// sign of a hang, is a new fault. So is a smaller number of errors, because then they were
// counted from zero again. The temperature of a hot GPU is not compared.
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

// splitAcknowledged returns the acknowledgements with an active fault, and the active
// faults without one.
func splitAcknowledged(acknowledged, standing []health.Fault) (kept, fresh []health.Fault) {
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

// Node is the answer of a GPU's node when it is opened. This needs more of the driver than
// reading sysfs does: a new address space. See actions.beginProbe.
type Node string

// Answers that are faults. All others, such as for a node that this unit may not open, are
// not about the GPU.
const (
	NodeStuck Node = "stuck"  // no answer for ten seconds
	NodeGone  Node = "ENODEV" // the driver has given up the GPU
	NodeFails Node = "EIO"
)

// NodeDir has the answers, and the locks of processes that wait for one.
const NodeDir = wellknown.RunDir + "/gpu-node"

// noNode is the fault. File is the Node.
const noNode health.Kind = "node_fails"

// fault returns the fault of an answer.
func (n Node) fault() (health.Fault, bool) {
	switch n {
	case NodeStuck, NodeGone, NodeFails:
		return health.Fault{Kind: noNode, File: string(n)}, true
	}
	return health.Fault{}, false
}

// TaskFault returns the fault of a task that has the GPU: the last one that quarantined it.
// gate reports whether results computed on it may be lost or wrong. The fault is nil if the
// GPU is in service, healthy again, or quarantined by hand.
func (g *GPU) TaskFault() (f *health.Fault, gate bool) {
	if g.State != Quarantined || g.QuarantinedBy != ByHealth || g.Fault == nil {
		return nil, false
	}
	return g.Fault, endangers(*g.Fault)
}

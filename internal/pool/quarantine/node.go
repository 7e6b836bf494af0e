package quarantine

import (
	"concourse-ci-machine/internal/gpu/health"
)

// Node is how a GPU's node answered who opened it, which asks more of its driver than
// reading sysfs does: an address space of its own. See actions.beginProbe.
type Node string

// The answers that are faults. All else, as a node that this unit may not open, says
// nothing about the GPU.
const (
	NodeStuck Node = "stuck"  // it has not come back for ten seconds
	NodeGone  Node = "ENODEV" // the driver has given the GPU up
	NodeFails Node = "EIO"
)

// NodeDir has the answers, and locks of those who wait for one.
const NodeDir = "/run/concourse-gpu-node"

// noNode is the fault; File is the Node.
const noNode health.Kind = "node_fails"

// fault is what an answer says about the GPU.
func (n Node) fault() (health.Fault, bool) {
	switch n {
	case NodeStuck, NodeGone, NodeFails:
		return health.Fault{Kind: noNode, File: string(n)}, true
	}
	return health.Fault{}, false
}

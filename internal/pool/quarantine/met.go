package quarantine

import "concourse-ci-machine/internal/gpu/health"

// Met is the fault that a task which has the GPU met: what withheld it last. gate is
// whether what the task computed on it may be lost or wrong. nil where none did: it is in
// service, well again, or withheld by hand.
func (g *GPU) Met() (f *health.Fault, gate bool) {
	if g.State != Withheld || g.By != ByHealth || g.Fault == nil {
		return nil, false
	}
	return g.Fault, isGate(*g.Fault)
}

package watcher

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/drm"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// A GPU can have good readings and hang every process that opens it. So a separate process
// opens the GPUs of tasks, and GPUs on probation, once a minute, one GPU per look. Other
// GPUs may sleep, and are not opened.
const (
	probePeriod = time.Minute
	// stuckTime is longer than a GPU in reset takes to answer.
	stuckTime = 10 * time.Second
)

// probeResult records the opening of a node. The process writes it at the start, and again
// with the result.
type probeResult struct {
	Begun time.Time       `json:"begun"`
	Ended *time.Time      `json:"ended,omitempty"`
	Node  quarantine.Node `json:"node,omitempty"` // the errno's name; "" if the node opened
}

func probeFile(name string) statefile.File[probeResult] {
	return statefile.File[probeResult]{Path: path.Join(quarantine.NodeDir, name+".json"), Mode: 0o600, Disposable: true}
}
func probeLock(name string) string { return path.Join(quarantine.NodeDir, name+".lock") }

// addNodes adds the results of opened nodes to a look, and returns the GPU with the node to
// open next, "" for none.
func (u *Unit) addNodes(l *quarantine.Look, r quarantine.Record) (next string) {
	now, oldest := u.Host.Now(), time.Time{}
	for i := range l.GPUs {
		s := &l.GPUs[i]
		has := func(t quarantine.Task) bool { return slices.Contains(t.GPUs, s.Address()) }
		known := r.Find(s.Address())
		if !slices.ContainsFunc(l.Tasks, has) && (known == nil || known.State == quarantine.InService) {
			continue
		}
		a, running := u.readProbe(s.Address())
		switch {
		case running && now.Sub(a.Begun) >= stuckTime:
			s.Node = quarantine.NodeStuck
		case a.Ended != nil && now.Sub(*a.Ended).Abs() < 2*probePeriod:
			s.Node = a.Node
		}
		if !running && now.Sub(a.Begun).Abs() >= probePeriod && (next == "" || a.Begun.Before(oldest)) {
			next, oldest = s.Address(), a.Begun
		}
	}
	return next
}

// readProbe returns the last result for a GPU, and whether a process is opening its node
// now. The process holds a lock while it lives, also if no signal ends it.
func (u *Unit) readProbe(name string) (a probeResult, running bool) {
	unlock, err := u.Host.TryLock(probeLock(name))
	if err == nil {
		defer unlock()
	}
	a, _ = probeFile(name).Read(u.Host.Root) // an unreadable result is probed again
	return a, errors.Is(err, host.ErrLocked)
}

// startProbe starts OpenNode in a separate process.
func (u *Unit) startProbe(name string) error {
	if u.Start == nil {
		return nil
	}
	return u.Start("gpu", "open", name)
}

// OpenNode opens a GPU's node and writes the result. It may never return.
func (u *Unit) OpenNode(_ context.Context, _ io.Writer, name string) error {
	inv, err := gpu.Discover(u.Host.Root)
	if err != nil {
		return err
	}
	unlock, err := u.Host.TryLock(probeLock(name))
	if errors.Is(err, host.ErrLocked) {
		return nil // another process opens the node
	}
	if err != nil {
		return err
	}
	defer unlock()
	g := inv.Find(name)
	if g == nil || !g.Vendor.Has(gpu.Quarantine) {
		return nil // the GPU is missing, as the exporter reports
	}
	a := probeResult{Begun: u.Host.Now().UTC()}
	if err := probeFile(name).Write(u.Host.Root, a); err != nil {
		return err
	}
	_, err = drm.Ask(u.Host.Root.Path(g.Render.Path))
	a.Ended = new(u.Host.Now().UTC())
	if number, ok := errors.AsType[unix.Errno](err); ok {
		a.Node = quarantine.Node(unix.ErrnoName(number))
	}
	return probeFile(name).Write(u.Host.Root, a)
}

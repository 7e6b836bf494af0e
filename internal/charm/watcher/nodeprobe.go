package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/drm"
	"concourse-ci-machine/internal/pool/quarantine"
)

// A GPU can read clean and hang whoever opens it. So those that a task has, or that are on
// trial, are opened by a process of its own each minute, one at a look. Others may sleep,
// and are left asleep.
const (
	probePeriod = time.Minute
	// stuckTime is more than a GPU in reset takes to answer.
	stuckTime = 10 * time.Second
)

// nodeAnswer is what the process that opens a node writes: when it begins, and again with
// the rest when it has come back.
type probeResult struct {
	Begun time.Time       `json:"begun"`
	Ended *time.Time      `json:"ended,omitempty"`
	Node  quarantine.Node `json:"node,omitempty"` // the errno's name; "" where it opened
}

func probeFile(name string) string { return path.Join(quarantine.NodeDir, name+".json") }
func probeLock(name string) string { return path.Join(quarantine.NodeDir, name+".lock") }

// seeNodes puts into a look how the nodes answered that were opened, and returns which one
// is to be opened next; "" for none.
func (u *Unit) addNodes(l *quarantine.Look, r quarantine.Record) (next string) {
	now, oldest := u.Host.Now(), time.Time{}
	for i := range l.GPUs {
		s := &l.GPUs[i]
		has := func(t quarantine.Task) bool { return slices.Contains(t.GPUs, s.Name) }
		known := r.Find(s.Name)
		if !slices.ContainsFunc(l.Tasks, has) && (known == nil || known.State == quarantine.InService) {
			continue
		}
		a, running := u.readProbe(s.Name)
		switch {
		case running && now.Sub(a.Begun) >= stuckTime:
			s.Node = quarantine.NodeStuck
		case a.Ended != nil && now.Sub(*a.Ended).Abs() < 2*probePeriod:
			s.Node = a.Node
		}
		if !running && now.Sub(a.Begun).Abs() >= probePeriod && (next == "" || a.Begun.Before(oldest)) {
			next, oldest = s.Name, a.Begun
		}
	}
	return next
}

// answered is what is known of a GPU's last opening, and whether one is on its way: the
// process holds a lock as long as it lives, also one that no signal ends.
func (u *Unit) readProbe(name string) (a probeResult, running bool) {
	unlock, err := u.Host.TryLock(probeLock(name))
	if err == nil {
		defer unlock()
	}
	data, wrong := u.Host.ReadFile(probeFile(name))
	if wrong != nil || json.Unmarshal(data, &a) != nil {
		a = probeResult{}
	}
	return a, errors.Is(err, host.ErrLocked)
}

// beginProbe starts OpenNode in a process of its own.
func (u *Unit) startProbe(name string) error {
	if u.Start == nil {
		return nil
	}
	return u.Start("gpu", "open", name)
}

// OpenNode opens a GPU's node, and writes down how that went. It may never come back.
func (u *Unit) OpenNode(_ context.Context, _ io.Writer, name string) error {
	inv, err := gpu.Discover(u.Host.Root)
	if err != nil {
		return err
	}
	unlock, err := u.Host.TryLock(probeLock(name))
	if errors.Is(err, host.ErrLocked) {
		return nil // one is on its way
	}
	if err != nil {
		return err
	}
	defer unlock()
	for _, g := range inv.Of(gpu.AMD) {
		if gpu.Slot(g.PCI, g.Partition) != name {
			continue
		}
		a := probeResult{Begun: u.Host.Now().UTC()}
		if err := u.writeProbe(name, a); err != nil {
			return err
		}
		_, err := drm.Ask(u.Host.Root.Path(g.Render.Path))
		now := u.Host.Now().UTC()
		a.Ended = &now
		var number unix.Errno
		if errors.As(err, &number) {
			a.Node = quarantine.Node(unix.ErrnoName(number))
		}
		return u.writeProbe(name, a)
	}
	return nil // it is gone, as the exporter will tell
}

func (u *Unit) writeProbe(name string, a probeResult) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return u.Host.WriteFile(probeFile(name), append(data, '\n'), 0o600)
}

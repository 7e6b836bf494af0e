package watcher

import (
	"fmt"

	"concourse-ci-machine/internal/pool/quarantine"
)

// Lease is what check-status says of a lease that nobody can judge.
type Lease struct {
	GPU   string // as texts for people name it
	Doubt string
}

// Leases counts the GPUs that are held, of all that are leased, and names those in doubt.
// on is false where tasks share the GPUs.
func (u *Unit) Leases() (held, of int, doubts []Lease, on bool, err error) {
	l, gpus, on, err := u.leased()
	if err != nil || !on {
		return 0, 0, nil, on, err
	}
	now, _, err := u.leaseReport(l, gpus)
	for i, g := range now.GPUs {
		if g.Held {
			held++
		}
		if g.Doubt != "" {
			doubts = append(doubts, Lease{gpus[i].String(), g.Doubt})
		}
	}
	return held, len(now.GPUs), doubts, on, err
}

// Out is what check-status says of a GPU that no new task gets.
type Out struct {
	GPU    string // as texts for people name it
	Text   string // why, and the command that helps
	Person bool   // it waits for one
}

// OutOfService are the GPUs that no new task gets, of all that are watched. unit is the
// unit's name, for commands.
func (u *Unit) OutOfService(unit string) (out []Out, of int, err error) {
	all, err := u.servedNow()
	for _, s := range all {
		if s.State != quarantine.InService {
			out = append(out, Out{s.String(), s.Text() + "; " + s.remedy(unit), s.ManualReturn})
		}
	}
	return out, len(all), err
}

// Warnings returns what speaks against GPUs that tasks get all the same.
func (u *Unit) Warnings() (list []Out, err error) {
	all, err := u.servedNow()
	for _, s := range all {
		if warning := s.WarningText(); warning != "" {
			list = append(list, Out{GPU: s.String(), Text: warning})
		}
	}
	return list, err
}

// remedy is the command that helps with a GPU that is not in service.
func (s servedGPU) remedy(unit string) string {
	which := fmt.Sprint(s.index)
	if s.index < 0 {
		which = s.name
	}
	back := fmt.Sprintf("juju run %s gpu-return gpu=%s", unit, which)
	switch code := s.Code(); {
	case s.ManualReturn:
		return "once it is mended: " + back
	case s.QuarantinedBy == quarantine.ByHand:
		return "give it back: " + back
	case s.index < 0:
		return "give it back to the unit, or go on without it: " + back
	case s.State == quarantine.Proving:
		return "it comes back by itself; at once: " + back
	case code > 0:
		return fmt.Sprintf("what to do: juju run %s explain-error code=%d", unit, code)
	}
	return fmt.Sprintf("more: juju run %s gpu-status", unit)
}

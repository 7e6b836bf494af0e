package watcher

import (
	"fmt"
	"io"

	"concourse-ci-machine/internal/pool/quarantine"
)

// Withhold keeps a GPU from new containers until a person returns it.
func (u *Unit) Withhold(w io.Writer, which, reason string) error {
	return u.byHand(w, "withhold", which, func(r quarantine.Record, of servedGPU) (quarantine.Record, string, error) {
		now, err := r.Withhold(of.name, reason, u.Host.Now().UTC())
		return now, fmt.Sprintf("%s is withheld: no new container gets it; one that has it keeps it. gpu-return gives it back. The status follows at the next hook, tags once it was out for 10 minutes", of), err
	})
}

// Return gives a GPU back to tasks, whoever withheld it.
func (u *Unit) Return(w io.Writer, which string) error {
	return u.byHand(w, "return", which, func(r quarantine.Record, of servedGPU) (quarantine.Record, string, error) {
		now, standing, err := r.Return(of.name, u.Host.Now().UTC())
		text := of.String() + " is in service again"
		switch {
		case now.Find(of.name) == nil:
			text = of.String() + " is gone, and forgotten: it counts anew when it is back"
		case len(standing) > 0:
			text += ", though this stands: " + quarantine.DescribeFaults(standing) + ". It is not withheld for that any more; for anything new it is"
		}
		return now, text + ". Tags and status follow by the next hooks, within 10 minutes", err
	})
}

func (u *Unit) byHand(w io.Writer, verb, which string, change func(quarantine.Record, servedGPU) (quarantine.Record, string, error)) error {
	text := ""
	if err := u.changeService(func(r quarantine.Record) (quarantine.Record, error) {
		of, err := u.findServed(r, verb, which)
		if err != nil {
			return r, err
		}
		r.Policy = u.quarantine(r)
		r, text, err = change(r, of)
		return r, err
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

package watcher

import (
	"errors"
	"fmt"

	"concourse-ci-machine/internal/pool/admission"
	"concourse-ci-machine/internal/pool/quarantine"
)

// changeService changes the record, and what the wrapper reads of it.
func (u *Unit) changeService(change func(quarantine.Record) (quarantine.Record, error)) error {
	unlock, err := u.Host.Lock(quarantine.LockFile)
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w; run it with sudo", quarantine.LockFile, err)
	}
	defer unlock()
	r, err := quarantine.Read(u.Host.Root)
	if err != nil && !errors.Is(err, quarantine.ErrDamaged) {
		return err
	}
	// A damaged record is made anew by the next look: what is sick is withheld again at
	// once. What a person withheld is lost; files are replaced in one step, so somebody
	// has to have written there.
	if r, err = change(r); err != nil {
		return err
	}
	// The wrapper's file first: a kill in between withholds a GPU too soon, never too late.
	if err := u.writeWithheld(r); err != nil {
		return err
	}
	return quarantine.Write(u.Host.Root, r)
}

// writeWithheld writes what the wrapper reads for each container, where it differs:
// no file where there is nothing to say.
func (u *Unit) writeWithheld(r quarantine.Record) error {
	var f admission.File
	for _, g := range r.OutOfService() {
		f.GPUs = append(f.GPUs, admission.Quarantined{Name: g.Name, Reason: g.Text()})
	}
	for _, g := range r.GPUs {
		if g.State == quarantine.InService && g.OpenIn != "" {
			f.GPUs = append(f.GPUs, admission.Quarantined{Name: g.Name, Reason: "is open in container " + g.OpenIn + ", which has not leased it (fly containers shows its build)"})
		}
	}
	for _, a := range r.Avoid() {
		f.Avoid = append(f.Avoid, admission.Avoided{Name: a.GPU, StepHash: a.StepHash})
	}
	if _, _, on, err := u.leased(); err == nil && on {
		for _, g := range r.GPUs {
			if most, ok := g.MaxIdleMemory(); ok && g.State == quarantine.InService {
				f.Memory = append(f.Memory, admission.IdleMemory{Name: g.Name, File: "/sys/bus/pci/devices/" + g.Name + "/mem_info_vram_used", Most: most})
			}
		}
	}
	if len(f.GPUs)+len(f.Avoid)+len(f.Memory) == 0 {
		return u.Host.Remove(quarantine.AdmissionFile)
	}
	want := admission.Encode(f)
	if have, err := u.Host.ReadFile(quarantine.AdmissionFile); err == nil && string(have) == string(want) {
		if st, err := u.Host.Lstat(quarantine.AdmissionFile); err == nil && st.Mode() == 0o644 {
			return nil
		}
	}
	return u.Host.WriteFile(quarantine.AdmissionFile, want, 0o644)
}

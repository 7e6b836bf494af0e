package watcher

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpureset"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// recorded returns the GPUs of the record, with all their names.
func (u *Unit) recorded(r quarantine.Record) (all []pool.Record, err error) {
	inv, err := gpu.Discover(u.Host.Root)
	if err != nil {
		return nil, err
	}
	for i := range r.GPUs {
		all = append(all, pool.Record{Slot: findSlot(inv, r.GPUs[i].Name), Service: &r.GPUs[i]})
	}
	return all, nil
}

func (u *Unit) findRecorded(r quarantine.Record, verb, which string) (g pool.Record, err error) {
	all, err := u.recorded(r)
	if err != nil {
		return g, err
	}
	if facts, _ := model.Load(u.Host.Root); len(all) == 0 && facts.Role == model.WebRole {
		return g, fmt.Errorf("cannot %s GPU %q: this unit is the web, which gives tasks no GPU; "+
			"run it on a worker's unit", verb, which)
	}
	if len(all) == 0 {
		see := u.Commands.ShowStatus()
		if u.onWorkstation() {
			see = "systemctl status gpukit-gpus"
		}
		return g, fmt.Errorf("cannot %s GPU %q: no AMD GPU of this %s is watched yet; see %s", verb, which, u.place(), see)
	}
	var gpus []gpu.Slot
	for _, s := range all {
		gpus = append(gpus, s.Slot)
	}
	i, err := u.findGPU(gpus, verb, "has", which)
	if err != nil {
		return g, err
	}
	return all[i], nil
}

// readRecorded reads the GPUs of the record. It returns none before the first decision.
func (u *Unit) readRecorded() ([]pool.Record, error) {
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	if errors.Is(err, statefile.ErrDamaged) {
		return nil, nil // the watcher recreates it within seconds
	}
	if err != nil || len(r.GPUs) == 0 {
		return nil, err
	}
	return u.recorded(r)
}

// serviceText returns a line for each GPU that is not in service, and for each warning.
func (u *Unit) serviceText(all []pool.Record) string {
	var b strings.Builder
	resets, _ := gpureset.ReadHistory(u.Host.Root) // which only root may read
	for _, s := range all {
		if warning := s.Service.WarningText(); warning != "" {
			fmt.Fprintf(&b, "warning: %s: %s\n", s, warning)
		}
		if s.Service.State == quarantine.InService {
			continue
		}
		fmt.Fprintf(&b, "%s: %s %s\n", s.Service.State, s, s.Service.Text())
		if now := quarantine.DescribeFaults(s.Service.ActiveFaults); s.Service.State == quarantine.Quarantined && now != "" {
			fmt.Fprintf(&b, "      at the last look: %s\n", now)
		}
		if last := resets.Last(s.Service.Name); last != nil {
			fmt.Fprintf(&b, "      %s\n", last)
		}
	}
	return b.String()
}

// ServiceStatus describes the service state of a GPU in JSON.
type ServiceStatus struct {
	quarantine.Ref
	pool.Service
	ActiveFaults []health.Fault `json:"active_faults,omitempty"` // at the last look
	Seconds      float64        `json:"quarantine_seconds"`
	Times        uint64         `json:"quarantines"` // because of faults
	Warning      string         `json:"warning,omitempty"`
}

func (u *Unit) serviceJSON(all []pool.Record) (list []ServiceStatus) {
	for _, s := range all {
		g, shown := s.Service, *s.View().Service
		shown.Since = shown.Since.Truncate(time.Second)
		list = append(list, ServiceStatus{
			g.Ref, shown, g.ActiveFaults, g.QuarantinedFor(u.Host.Now()), g.Times, g.WarningText(),
		})
	}
	return list
}

// changeRecord changes the record, and the wrapper's copy of it.
func (u *Unit) changeRecord(change func(quarantine.Record) (quarantine.Record, error)) error {
	unlock, err := u.Host.Lock(quarantine.LockFile)
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w", quarantine.LockFile, err)
	}
	defer unlock()
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	if err != nil && !errors.Is(err, statefile.ErrDamaged) {
		return err
	}
	// The next look recreates a damaged record: faulty GPUs are quarantined again at once.
	// The manual quarantine is lost. Files are replaced in one step, so only another
	// program can have damaged the record.
	if r, err = change(r); err != nil {
		return err
	}
	// The wrapper's file is written first: a kill in between quarantines a GPU too early,
	// never too late.
	if err := u.writeAdmission(r); err != nil {
		return err
	}
	return quarantine.RecordFile.Write(u.Host.Root, r)
}

// writeAdmission writes the file that the wrapper reads for each container, if it differs.
// It removes the file if all GPUs are available.
func (u *Unit) writeAdmission(r quarantine.Record) error {
	var f admission.File
	avoid := r.Avoid()
	leases, err := u.readLeases()
	leased := err == nil && leases != nil
	for _, g := range r.GPUs {
		one, inService := admission.GPU{Name: g.Name, Avoid: avoid[g.Name]}, g.State == quarantine.InService
		switch {
		case !inService:
			one.Reason = g.Text()
		case g.OpenIn != "":
			one.Reason = "is open in container " + g.OpenIn + ", which has not leased it (fly containers shows its build)"
		}
		if most, ok := g.MaxIdleMemory(); leased && ok && inService {
			one.Files, one.Most = memoryFiles(g), most
		}
		if leased {
			one.Taken = uint64(100 - 100*g.Memory.FreeShare())
		}
		if !one.IsZero() {
			f.GPUs = append(f.GPUs, one)
		}
	}
	if len(f.GPUs) == 0 {
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

// memoryFiles returns the files with the memory in use of a GPU.
func memoryFiles(g quarantine.GPU) []string {
	dir := "/sys/bus/pci/devices/" + g.Name
	files := []string{dir + "/mem_info_vram_used"}
	if g.Memory.Integrated {
		files = append(files, dir+"/mem_info_gtt_used")
	}
	return files
}

// Quarantine keeps a GPU from new containers until a person returns it.
func (u *Unit) Quarantine(w io.Writer, which, reason string) error {
	return u.changeByHand(
		w, "quarantine", which, func(r quarantine.Record, g pool.Record) (quarantine.Record, string, error) {
			now, err := r.Quarantine(g.Address(), reason, u.Host.Now().UTC())
			if u.onWorkstation() {
				return now, fmt.Sprintf("%s is quarantined: no new container or run gets it; one that has it keeps it. "+
					"Give it back: %s", g, u.Commands.RunAction("return-gpu gpu="+which)), err
			}
			return now, fmt.Sprintf("%s is quarantined: no new container gets it; one that has it keeps it. return-gpu "+
				"gives it back. The status follows at the next hook, tags once it was out for 10 minutes", g), err
		})
}

// Return makes a GPU available to tasks again, whatever the reason for its quarantine.
func (u *Unit) Return(w io.Writer, which string) error {
	return u.changeByHand(
		w, "return", which, func(r quarantine.Record, g pool.Record) (quarantine.Record, string, error) {
			now, standing, err := r.Return(g.Address(), u.Host.Now().UTC())
			text := g.String() + " is in service again"
			switch {
			case now.Find(g.Address()) == nil:
				text = g.String() + " is missing; it is used again when it returns"
			case len(standing) > 0:
				text += "; its present fault (" + quarantine.DescribeFaults(standing) +
					") is now ignored, a new one is not"
			}
			if u.onWorkstation() {
				return now, text, err
			}
			return now, text + ". Tags and status follow by the next hooks, within 10 minutes", err
		})
}

func (u *Unit) changeByHand(w io.Writer, verb, which string,
	change func(quarantine.Record, pool.Record) (quarantine.Record, string, error)) error {
	text := ""
	if err := u.changeRecord(func(r quarantine.Record) (quarantine.Record, error) {
		g, err := u.findRecorded(r, verb, which)
		if err != nil {
			return r, err
		}
		r.Policy = u.quarantinePolicy(r)
		r, text, err = change(r, g)
		return r, err
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// LeaseSummary counts the leases of a unit.
type LeaseSummary struct {
	Enabled bool // false if tasks share the GPUs
	GPUs    int  // with leases
	Held    int
	Doubts  []Problem // leases in doubt, with the reason
}

// Leases summarizes the leases of the unit.
func (u *Unit) Leases() (s LeaseSummary, err error) {
	l, err := u.readLeases()
	if l == nil {
		return s, err
	}
	now, _, err := u.leaseReport(l)
	s.Enabled, s.GPUs = true, len(now.GPUs)
	for i, g := range now.GPUs {
		if g.Held {
			s.Held++
		}
		if g.Doubt != "" {
			s.Doubts = append(s.Doubts, Problem{GPU: l.gpus[i].String(), Text: u.doubtText(g)})
		}
	}
	return s, err
}

// doubtText returns the doubt about a lease, with the command that frees the GPU.
func (u *Unit) doubtText(l pool.ReportedLease) string {
	return l.Doubt + "; when no task uses this GPU, run: " + u.Commands.ReleaseGPU(l.Name)
}

// Problem describes a GPU for check-status.
type Problem struct {
	GPU    string // its name in texts
	Text   string // why, and the command that helps
	Manual bool   // a person must return it
}

// NotInService returns the GPUs that no new task gets, and the number of watched GPUs. unit
// is the unit's name, for commands.
func (u *Unit) NotInService(unit string) (out []Problem, total int, err error) {
	all, err := u.readRecorded()
	for _, s := range all {
		if s.Service.State != quarantine.InService {
			text := s.Service.Text() + "; " + remedy(s, u.Commands.Of(unit))
			out = append(out, Problem{s.String(), text, s.Service.ManualReturn})
		}
	}
	return out, len(all), err
}

// Warnings returns the warnings on GPUs that are in service.
func (u *Unit) Warnings() (list []Problem, err error) {
	all, err := u.readRecorded()
	for _, s := range all {
		if warning := s.Service.WarningText(); warning != "" {
			list = append(list, Problem{GPU: s.String(), Text: warning})
		}
	}
	return list, err
}

// remedy returns the command that helps with a GPU that is not in service.
func remedy(s pool.Record, c wellknown.Commands) string {
	which := fmt.Sprint(s.Index)
	if s.Index == gpu.Missing {
		which = s.Address()
	}
	back := c.RunAction("return-gpu gpu=" + which)
	switch code := s.Service.Code(); {
	case s.Service.ManualReturn:
		return "after the repair: " + back
	case s.Service.QuarantinedBy == quarantine.ByHand:
		return "return it: " + back
	case s.Index == gpu.Missing:
		return "restore it, or go on without it: " + back
	case s.Service.State == quarantine.OnProbation:
		return "it returns by itself; at once: " + back
	case code > 0:
		return "what to do: " + c.RunAction(fmt.Sprintf("explain-error code=%d", code))
	}
	return "more: " + c.RunAction("gpu-status")
}

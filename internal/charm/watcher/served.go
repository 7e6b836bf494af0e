package watcher

import (
	"errors"
	"fmt"
	"strings"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/pool/quarantine"
)

// servedGPU is one of the GPUs that the record has.
type servedGPU struct {
	leasedGPU
	quarantine.GPU
}

// String is the GPU as texts for people name it.
func (s servedGPU) String() string { return s.leasedGPU.String() }

// served are the GPUs of the record, with all their names.
func (u *Unit) served(r quarantine.Record) (all []servedGPU, err error) {
	inv, err := gpu.Discover(u.Host.Root)
	if err != nil {
		return nil, err
	}
	for _, g := range r.GPUs {
		all = append(all, servedGPU{leasedOf(inv, g.Name), g})
	}
	return all, nil
}

func (u *Unit) findServed(r quarantine.Record, verb, which string) (of servedGPU, err error) {
	all, err := u.served(r)
	if err != nil {
		return of, err
	}
	if len(all) == 0 {
		return of, fmt.Errorf("cannot %s GPU %q: no AMD GPU of this unit is watched yet; see juju status", verb, which)
	}
	var gpus []leasedGPU
	for _, s := range all {
		gpus = append(gpus, s.leasedGPU)
	}
	i, err := findGPU(gpus, verb, "has", which)
	if err != nil {
		return of, err
	}
	return all[i], nil
}

// servedNow are the GPUs of the record; none where nothing was decided yet.
func (u *Unit) servedNow() ([]servedGPU, error) {
	r, err := quarantine.Read(u.Host.Root)
	if errors.Is(err, quarantine.ErrDamaged) {
		return nil, nil // within seconds it is made anew
	}
	if err != nil || len(r.GPUs) == 0 {
		return nil, err
	}
	return u.served(r)
}

// serviceText names the GPUs that are not in service, and warnings on others; "" for none.
func serviceText(all []servedGPU) string {
	var b strings.Builder
	for _, s := range all {
		if warning := s.WarningText(); warning != "" {
			fmt.Fprintf(&b, "warning: %s: %s\n", s, warning)
		}
		if s.State == quarantine.InService {
			continue
		}
		fmt.Fprintf(&b, "%s: %s %s\n", s.State, s, s.Text())
		if now := quarantine.DescribeFaults(s.ActiveFaults); s.State == quarantine.Quarantined && now != "" {
			fmt.Fprintf(&b, "      at the last look: %s\n", now)
		}
	}
	return b.String()
}

// Served is a GPU's service state in JSON.
type Served struct {
	Name     string           `json:"name"`
	Index    int              `json:"index"`
	State    quarantine.State `json:"state"`
	Since    string           `json:"since"`
	Why      string           `json:"why"`
	By       quarantine.Actor `json:"by,omitempty"`
	Standing []health.Fault   `json:"standing,omitempty"` // at the last look
	Seconds  float64          `json:"withheld_seconds"`
	Times    uint64           `json:"withheld_times"` // because it was sick
	Warning  string           `json:"warning,omitempty"`
}

func (u *Unit) servedJSON(all []servedGPU) (list []Served) {
	for _, s := range all {
		list = append(list, Served{s.name, s.Index, s.State, s.Since.UTC().Format("2006-01-02T15:04:05Z"), s.Reason, s.QuarantinedBy, s.ActiveFaults, s.OutFor(u.Host.Now()), s.Times, s.WarningText()})
	}
	return list
}

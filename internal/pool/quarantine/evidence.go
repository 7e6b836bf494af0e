package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"concourse-ci-machine/internal/base/host"
)

// EvidenceFile has the last runs that met faults, with what the kernel said. Root alone
// may read it: the kernel's log can have what others wrote there.
const EvidenceFile = Dir + "/gpu-evidence.json"

// maxEvidence bounds the file, to some 400 KiB.
const maxEvidence = 50

// Evidence is what is known of one task that met faults.
type Evidence struct {
	Run
	// Kernel is what the kernel's log has on these GPUs, from the run's beginning to
	// lingerTime after its end; Unread why that is not known.
	Kernel []string `json:"kernel_log,omitempty"`
	Unread string   `json:"kernel_log_unread,omitempty"`
}

// News are the runs that were judged from one record to the next.
func News(before, now Record) (list []Run) {
	for _, m := range now.Met {
		known := func(o Run) bool { return o.Container == m.Container && o.Began.Equal(m.Began) }
		if !slices.ContainsFunc(before.Met, known) {
			list = append(list, m)
		}
	}
	return list
}

// ReadEvidence reads the file, the oldest first; nothing where there is none.
func ReadEvidence(r host.Root) (list []Evidence, err error) {
	data, err := r.ReadFile(EvidenceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	} else if !errors.Is(err, host.ErrNotFile) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w: %w", EvidenceFile, ErrDamaged, err)
	}
	return list, nil
}

// AddEvidence keeps more of it, and drops the oldest. A damaged file is begun anew.
func AddEvidence(r host.Root, more []Evidence) error {
	list, err := ReadEvidence(r)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	list = append(list, more...)
	data, err := json.Marshal(list[max(0, len(list)-maxEvidence):])
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", EvidenceFile, err)
	}
	return r.WriteFile(EvidenceFile, append(data, '\n'), 0o600)
}

package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"concourse-ci-machine/internal/base/host"
)

const (
	// Dir is the folder of files that outlive a reboot and that all users may read.
	Dir = "/var/lib/concourse-ci-machine"
	// File is the Record. All users may read it, because the exporter does not run as root.
	File = Dir + "/gpu-service.json"
	// AdmissionFile is the part of it that the wrapper reads for each container.
	AdmissionFile = Dir + "/gpu-withheld.json"
	// LockFile locks the record against concurrent changes. A hook never holds it.
	LockFile = "/run/concourse-charm/gpu-service.lock"
)

// ErrDamaged means that the file exists and has no valid record.
var ErrDamaged = errors.New("it is damaged")

// Read reads the record. If the file is missing, it is empty and all GPUs are in service.
func Read(r host.Root) (rec Record, err error) {
	data, err := r.ReadFile(File)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if errors.Is(err, host.ErrNotFile) {
		err = fmt.Errorf("cannot read %s: %w: %w", File, ErrDamaged, err)
	}
	if err != nil {
		return rec, err
	}
	return decode(data)
}

// decode reads the bytes of encode.
func decode(data []byte) (rec Record, err error) {
	if err := json.Unmarshal(data, &rec); err != nil {
		return Record{}, fmt.Errorf("cannot read %s: %w: %w", File, ErrDamaged, err)
	}
	seen := map[string]bool{}
	for _, g := range rec.GPUs {
		if g.Name == "" || seen[g.Name] || g.State != InService && (g.OutSince == nil || g.QuarantinedBy == "") {
			return Record{}, fmt.Errorf("cannot read %s: %w: GPU %q", File, ErrDamaged, g.Name)
		}
		seen[g.Name] = true
	}
	return rec, nil
}

// Write replaces the record in one step.
func Write(r host.Root, rec Record) error {
	data, err := encode(rec)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", File, err)
	}
	return r.WriteFile(File, data, 0o644)
}

func encode(rec Record) ([]byte, error) {
	data, err := json.Marshal(rec)
	return append(data, '\n'), err
}

// CurrentLoad identifies this boot and this load of the driver. The folder of a module gets
// another inode number with each load.
func CurrentLoad(r host.Root) (boot, driver string) {
	boot, _ = r.ReadText("/proc/sys/kernel/random/boot_id") // "" is a boot like any other
	if st, err := r.Stat("/sys/module/amdgpu"); err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			driver = fmt.Sprint(sys.Ino)
		}
	}
	return boot, driver
}

// EvidenceFile has the last runs with faults and the kernel's log of them. Only root may
// read it, because the kernel's log can contain texts of others.
const EvidenceFile = Dir + "/gpu-evidence.json"

// maxEvidence bounds the file to about 400 KiB.
const maxEvidence = 50

// Evidence describes one task that had faults.
type Evidence struct {
	Run
	// Kernel has the kernel's log about these GPUs, from the start of the run to lingerTime
	// after its end. Unread is the reason if it could not be read.
	Kernel []string `json:"kernel_log,omitempty"`
	Unread string   `json:"kernel_log_unread,omitempty"`
}

// NewFaultyRuns returns the runs that were judged from one record to the next.
func NewFaultyRuns(before, now Record) (list []Run) {
	for _, m := range now.FaultyRuns {
		known := func(o Run) bool { return o.Container == m.Container && o.Began.Equal(m.Began) }
		if !slices.ContainsFunc(before.FaultyRuns, known) {
			list = append(list, m)
		}
	}
	return list
}

// ReadEvidence reads the file, the oldest entry first. It returns none if the file is
// missing.
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

// AddEvidence adds entries and drops the oldest. It replaces a damaged file.
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

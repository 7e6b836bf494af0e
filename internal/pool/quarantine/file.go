package quarantine

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

const (
	// File is the Record. All users may read it, because the exporter does not run as root.
	File = wellknown.StateDir + "/gpu-quarantine.json"
	// AdmissionFile is the part of it that the wrapper reads for each container.
	AdmissionFile = wellknown.StateDir + "/gpu-admission.json"
	// LockFile locks the record against concurrent changes. A hook never holds it.
	LockFile = wellknown.LockDir + "/gpu-quarantine"
)

// RecordFile declares File. While the file is missing, all GPUs are in service.
var RecordFile = statefile.File[Record]{Path: File, Mode: 0o644, Valid: Record.valid}

func (r Record) valid() error {
	seen := map[string]bool{}
	for _, g := range r.GPUs {
		if g.Name == "" || seen[g.Name] || g.State != InService &&
			(g.QuarantinedSince == nil || g.QuarantinedBy == "") {
			return fmt.Errorf("GPU %q", g.Name)
		}
		seen[g.Name] = true
	}
	return nil
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
const EvidenceFile = wellknown.StateDir + "/gpu-evidence.json"

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

var evidenceFile = statefile.File[[]Evidence]{Path: EvidenceFile, Mode: 0o600}

// ReadEvidence reads the file, the oldest entry first. It returns none if the file is
// missing.
func ReadEvidence(r host.Root) ([]Evidence, error) { return evidenceFile.Read(r) }

// AddEvidence adds entries and drops the oldest. It replaces a damaged file.
func AddEvidence(r host.Root, more []Evidence) error {
	list, err := ReadEvidence(r)
	if err != nil && !errors.Is(err, statefile.ErrDamaged) {
		return err
	}
	list = append(list, more...)
	return evidenceFile.Write(r, list[max(0, len(list)-maxEvidence):])
}

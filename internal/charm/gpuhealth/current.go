package gpuhealth

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// packageReport is the owner's record on a machine with the package rocm-gpu-exporter, where
// the charm does not run.
const packageReport = "/run/rocm-gpu-exporter/gpus.json"

// Current returns the state of the GPUs as their owner recorded it, with their leases and
// quarantine. It reads no GPU, and needs no exporter.
func Current(r host.Root, now time.Time) (api.Report, error) {
	report, err := readRecord(r, now)
	if err != nil {
		return report, err
	}
	var records pool.Records
	if leases, err := pool.LeaseFile.Read(r); err == nil {
		records.Leases = &leases
	}
	if service, err := quarantine.RecordFile.Read(r); err == nil {
		records.Service = &service
	}
	for i := range report.GPUs {
		s := &report.GPUs[i]
		s.View = records.Of(s.Slot(), now).View()
	}
	return report, nil
}

// readRecord returns the owner's record. It fails if the owner wrote none lately.
func readRecord(r host.Root, now time.Time) (api.Report, error) {
	path := role.GPUReport
	if !r.Exists(path) && r.Exists(packageReport) {
		path = packageReport
	}
	return api.Read(r, path, now)
}

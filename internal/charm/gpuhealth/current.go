package gpuhealth

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// packageReport is the owner's record on a machine with the package rocm-gpu-exporter, where
// the charm does not run.
const packageReport = "/run/rocm-gpu-exporter/gpus.json"

// Current returns the state of the GPUs as their owner recorded it in the file path, with
// their leases and quarantine. It reads no GPU, and needs no exporter.
func Current(r host.Root, path string, now time.Time) (api.Report, error) {
	if !r.Exists(path) && r.Exists(packageReport) {
		path = packageReport
	}
	report, err := api.Read(r, path, now)
	if err != nil {
		return report, err
	}
	records := ReadRecords(r)
	for i := range report.GPUs {
		s := &report.GPUs[i]
		s.View = records.Of(s.Slot(), now).View()
	}
	return report, nil
}

// ReadRecords returns what the unit recorded of its GPUs. A damaged record is as unknown as a
// missing one.
func ReadRecords(r host.Root) (records pool.Records) {
	if leases, err := pool.LeaseFile.Read(r); err == nil {
		records.Leases = &leases
	}
	if service, err := quarantine.RecordFile.Read(r); err == nil {
		records.Service = &service
	}
	return records
}

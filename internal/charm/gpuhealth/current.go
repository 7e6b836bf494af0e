package gpuhealth

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Current returns the state of the GPUs as their owner recorded it in the file path, with
// their leases and quarantine. It reads no GPU, and needs no exporter.
func Current(r host.Root, path string, now time.Time) (api.Report, error) {
	report, err := api.Read(r, path, now)
	if err == nil {
		AddRecords(r, report.GPUs, now)
	}
	return report, err
}

// AddRecords adds leases and quarantine to GPUs that were read.
func AddRecords(r host.Root, all []api.Status, now time.Time) {
	records := ReadRecords(r)
	for i := range all {
		all[i].View = records.Of(all[i].Slot(), now).View()
	}
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

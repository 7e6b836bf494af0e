package gpuhealth

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// ReadSeen returns the last report of the owner of the GPUs, for decisions on their service.
// An empty list does not mean that the GPUs are missing: the owner also writes one if it
// could not look for them.
func ReadSeen(r host.Root, path string, now time.Time) ([]quarantine.Reading, error) {
	report, err := api.Read(r, path, now)
	if err != nil {
		return nil, err
	}
	seen := seenOf(report.GPUs)
	for i := range seen {
		if report.UsersTime == nil {
			continue // gpu-metrics has no usage
		}
		seen[i].UsersAt = *report.UsersTime
		if seen[i].Open == nil { // the driver did not answer, so the owners of memory are not known
			seen[i].Memory, seen[i].Total = nil, nil
		}
	}
	return seen, nil
}

func seenOf(all []api.Status) (seen []quarantine.Reading) {
	for _, s := range all {
		if s.Vendor != "" && !gpu.Vendor(s.Vendor).Has(gpu.Quarantine) {
			continue
		}
		one := quarantine.Reading{Slot: s.Slot(), Name: s.Name, Up: s.Up, State: s.Health.State,
			Faults: s.Health.Faults, Open: openIn(s.Users), Processes: s.Processes, Integrated: s.Integrated}
		if s.Partitions <= 1 {
			one.Memory, one.Total = s.MemoryUsed, s.MemoryTotal
		}
		for _, u := range s.Users {
			if wellknown.IsHandle(u.Container) && u.Container != usage.Other {
				one.Users = append(one.Users, u.Container)
			}
		}
		seen = append(seen, one)
	}
	return seen
}

// openIn returns the containers that have a GPU open now. It returns nil if that is
// unknown.
func openIn(all []api.User) []string {
	if all == nil {
		return nil
	}
	containers := []string{}
	for _, u := range all {
		if wellknown.IsHandle(u.Container) && u.Processes > 0 {
			containers = append(containers, u.Container)
		}
	}
	return containers
}

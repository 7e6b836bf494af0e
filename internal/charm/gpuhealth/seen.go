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
	card := map[string]*float64{} // the memory of each, which one of its partitions reports
	for _, s := range all {
		if s.MemoryTotal != nil {
			card[s.PCI] = s.MemoryTotal
		}
	}
	for _, s := range all {
		if s.Vendor != "" && !gpu.Vendor(s.Vendor).Has(gpu.Quarantine) {
			continue
		}
		one := quarantine.Reading{Slot: s.Slot(), Up: s.Up, State: s.Health.State,
			Faults: s.Health.Faults, Open: openIn(s.Users), Processes: s.Processes, Integrated: s.Integrated}
		if one.Memory, one.Total = s.MemoryUsed, s.MemoryTotal; s.Partitions > 1 {
			one.Partition, one.Memory, one.Total = true, nil, nil
			if total := card[s.PCI]; total != nil && s.Users != nil {
				one.Memory, one.Total = new(memoryOf(s.Processes)), new(*total/float64(s.Partitions))
			}
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

// memoryOf returns the memory of processes. Those of the host can be in the list twice, see
// usage.Process.
func memoryOf(all []usage.Process) float64 {
	here, host := 0., 0.
	for _, p := range all {
		if p.Host {
			host += p.Memory
		} else {
			here += p.Memory
		}
	}
	return max(here, host)
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

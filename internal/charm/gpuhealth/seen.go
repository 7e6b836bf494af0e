package gpuhealth

import (
	"context"
	"errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// FetchSeen returns what the exporter at url reports of the GPUs for decisions on their
// service. An empty list does not mean that the GPUs are missing: the exporter also returns
// one if it could not look for them.
func FetchSeen(ctx context.Context, h host.Host, url string) ([]quarantine.Reading, error) {
	r, err := Fetch(ctx, h, url)
	if err != nil {
		return nil, err
	}
	return parseSeen(r.GPUs)
}

// The limits of a plausible answer.
const (
	maxGPUs   = 512
	maxFaults = 32
	maxUsers  = 512
)

var errImplausible = errors.New("the exporter reports impossible GPUs")

// parseSeen rejects implausible answers, because they are shown to people and in builds,
// and name files.
func parseSeen(all []api.Status) (seen []quarantine.Reading, err error) {
	if len(all) > maxGPUs {
		return nil, errImplausible
	}
	names := map[string]bool{}
	for _, s := range all {
		if s.Vendor != "" && !gpu.Vendor(s.Vendor).Has(gpu.Quarantine) {
			continue
		}
		name := s.Slot().Address()
		if !pci.IsFull(s.PCI) || s.Partition < 0 || s.Index < 0 || names[name] ||
			len(s.Health.Faults) > maxFaults {
			return nil, errImplausible
		}
		names[name] = true
		one := quarantine.Reading{Slot: s.Slot(), Name: Printable(s.Name), Up: s.Up, State: s.Health.State}
		if s.Partitions <= 1 {
			one.Memory, one.Total = s.MemoryUsed, s.MemoryTotal
		}
		for _, u := range s.Users {
			if wellknown.IsHandle(u.Container) && u.Container != usage.Other {
				one.Users = append(one.Users, u.Container)
			}
		}
		for _, f := range s.Health.Faults {
			if len(f.Signals) > maxFaults {
				return nil, errImplausible
			}
			one.Faults = append(one.Faults, f)
		}
		one.Open = openIn(s.Users)
		seen = append(seen, one)
	}
	return seen, nil
}

// openIn returns the containers that have a GPU open now. It returns nil if that is
// unknown.
func openIn(all []api.User) []string {
	if all == nil {
		return nil
	}
	containers := []string{}
	for _, u := range all[:min(len(all), maxUsers)] {
		if wellknown.IsHandle(u.Container) && u.Processes > 0 {
			containers = append(containers, u.Container)
		}
	}
	return containers
}

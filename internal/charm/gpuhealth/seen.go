package gpuhealth

import (
	"context"
	"errors"
	"regexp"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/exporter/api"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/usage"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Look is what the exporter at url, "" for this machine's own, tells of the GPUs to who
// decides whether they are in service. That it lists none is no word on those that there
// were: it does so also where it could not look for them.
func Look(ctx context.Context, h host.Host, url string) ([]quarantine.Reading, error) {
	r, err := Ask(ctx, h, url)
	if err != nil {
		return nil, err
	}
	return seenOf(r.GPUs)
}

// address is the form of a PCI address, which names a GPU in files that root trusts.
var address = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// The most that one answer is believed to have.
const (
	mostGPUs   = 512
	mostFaults = 32
	mostUsers  = 512
)

var errOdd = errors.New("the exporter tells of GPUs that there can't be")

// seenOf takes no answer that could not be one about GPUs: it is shown to people and in
// builds, and names files.
func seenOf(all []api.Status) (seen []quarantine.Reading, err error) {
	if len(all) > mostGPUs {
		return nil, errOdd
	}
	names := map[string]bool{}
	for _, s := range all {
		if s.Vendor != "" && s.Vendor != string(gpu.AMD) {
			continue // only AMD's are ever withheld
		}
		name := gpu.Slot(s.PCI, s.Partition)
		if !address.MatchString(s.PCI) || s.Partition < 0 || s.Index < 0 || names[name] || len(s.Health.Faults) > mostFaults {
			return nil, errOdd
		}
		names[name] = true
		one := quarantine.Reading{Name: name, Index: s.Index, GFX: s.GFX, Up: s.Up, State: s.Health.State}
		if s.Partitions <= 1 {
			one.Memory, one.Total = s.MemoryUsed, s.MemoryTotal
		}
		for _, u := range s.Users {
			if wellknown.IsHandle(u.Container) && u.Container != usage.Other {
				one.Users = append(one.Users, u.Container)
			}
		}
		for _, f := range s.Health.Faults {
			if len(f.Signals) > mostFaults {
				return nil, errOdd
			}
			one.Faults = append(one.Faults, f)
		}
		one.Open = openedBy(s.Users)
		seen = append(seen, one)
	}
	return seen, nil
}

// openedBy are the containers that have a GPU open now; nil where that is not known.
func openedBy(all []api.User) []string {
	if all == nil {
		return nil
	}
	containers := []string{}
	for _, u := range all[:min(len(all), mostUsers)] {
		if wellknown.IsHandle(u.Container) && u.Processes > 0 {
			containers = append(containers, u.Container)
		}
	}
	return containers
}

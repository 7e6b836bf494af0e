package role

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/model"
)

// GPUsFile is which GPUs the unit is known to have.
const GPUsFile = model.StateDir + "/gpus.json"

// KnownGPUs are the most that the unit had since somebody said what it is to
// have: by another compute-runtime, or by the action accept-gpus. Partitions of
// one GPU count once.
type KnownGPUs struct {
	Runtime string   `json:"compute-runtime"`
	PCI     []string `json:"gpus"`
}

// ReadKnown takes a damaged file for none: the worst that follows is a remark less.
func ReadKnown(r host.Root) (k KnownGPUs, err error) {
	data, err := r.ReadFile(GPUsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil && json.Unmarshal(data, &k) != nil {
		return KnownGPUs{}, nil
	}
	return k, err
}

// Write keeps them, where they changed.
func (k KnownGPUs) Write(r host.Root) error {
	have, err := ReadKnown(r)
	if err != nil || have.Runtime == k.Runtime && slices.Equal(have.PCI, k.PCI) {
		return err
	}
	if k.Runtime == "" {
		return r.Remove(GPUsFile)
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return r.WriteFile(GPUsFile, append(data, '\n'), 0o600)
}

// With is what is known from now on, and which GPUs are gone.
func (k KnownGPUs) With(runtime string, all []gpu.GPU) (now KnownGPUs, gone []string) {
	pci := Addresses(all)
	switch {
	case runtime != "none" && k.Runtime == runtime && len(k.PCI) > len(pci):
		return k, slices.DeleteFunc(slices.Clone(k.PCI), func(p string) bool { return slices.Contains(pci, p) })
	case len(pci) == 0:
		return KnownGPUs{}, nil
	}
	return KnownGPUs{runtime, pci}, nil
}

// Addresses are the PCI addresses, sorted, each once.
func Addresses(all []gpu.GPU) (pci []string) {
	for _, g := range all {
		pci = append(pci, g.PCI)
	}
	slices.Sort(pci)
	return slices.Compact(pci)
}

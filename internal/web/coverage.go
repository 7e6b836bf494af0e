package web

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/status"
)

// Coverage is which architectures of AMD GPUs the related workers have.
type Coverage struct {
	Architectures []CoveredArch   `json:"architectures" yaml:"architectures"` // by name
	Missing       []string        `json:"missing" yaml:"missing,flow"`        // of required-archs: those that no worker has
	Unknown       []CoveringUnit  `json:"unknown" yaml:"unknown"`             // AMD GPUs whose architecture the kernel does not tell
	Others        []CoveringUnit  `json:"others" yaml:"others"`               // GPUs that are not AMD's
	Workers       CoveringWorkers `json:"workers" yaml:"workers"`
}

// CoveredArch is one architecture, with the units that have it.
type CoveredArch struct {
	Arch     string         `json:"architecture" yaml:"architecture"`
	Required bool           `json:"required" yaml:"required"`
	GPUs     int            `json:"gpus" yaml:"gpus"` // of all units
	Units    []CoveringUnit `json:"units" yaml:"units"`
}

// CoveringUnit is one worker's unit in one of the lists.
type CoveringUnit struct {
	Unit    string `json:"unit" yaml:"unit"`
	Worker  string `json:"worker" yaml:"worker"` // its name at the web, "" where it tells none
	GPUs    int    `json:"gpus" yaml:"gpus"`     // of this list
	Sharing string `json:"sharing" yaml:"sharing"`
}

// MarshalYAML writes a unit in one line.
func (u CoveringUnit) MarshalYAML() (any, error) {
	type plain CoveringUnit
	var n yaml.Node
	err := n.Encode(plain(u))
	n.Style = yaml.FlowStyle
	return &n, err
}

// CoveringWorkers counts the related units.
type CoveringWorkers struct {
	All  int `json:"all" yaml:"all"`
	GPUs int `json:"with_gpus" yaml:"with_gpus"`
}

// CoverageOf is the matrix of what workers tell.
func CoverageOf(workers []model.Worker, required []string) Coverage {
	c := Coverage{Architectures: []CoveredArch{}, Missing: []string{}, Unknown: []CoveringUnit{}, Others: []CoveringUnit{}}
	at := func(arch string) *CoveredArch {
		i, found := slices.BinarySearchFunc(c.Architectures, arch, func(a CoveredArch, name string) int { return strings.Compare(a.Arch, name) })
		if !found {
			c.Architectures = slices.Insert(c.Architectures, i, CoveredArch{Arch: arch, Required: slices.Contains(required, arch), Units: []CoveringUnit{}})
		}
		return &c.Architectures[i]
	}
	for _, arch := range required {
		at(arch)
	}
	for _, w := range workers {
		c.Workers.All++
		if w.GPUs.Count == 0 {
			continue
		}
		c.Workers.GPUs++
		unit := CoveringUnit{Unit: w.Unit, Worker: w.Name, Sharing: "shared", GPUs: w.GPUs.Count}
		if w.GPUs.Exclusive {
			unit.Sharing = "exclusive"
		}
		if w.GPUs.Runtime != "rocm" {
			c.Others = append(c.Others, unit)
			continue
		}
		unknown := w.GPUs.Count
		for _, a := range w.GPUs.Archs {
			unknown -= a.GPUs
			unit.GPUs = a.GPUs
			arch := at(a.Arch)
			arch.GPUs += a.GPUs
			arch.Units = append(arch.Units, unit)
		}
		if unit.GPUs = unknown; unknown > 0 {
			c.Unknown = append(c.Unknown, unit)
		}
	}
	for _, arch := range required {
		if len(at(arch).Units) == 0 {
			c.Missing = append(c.Missing, arch)
		}
	}
	return c
}

// missingArchs is the remark on architectures that have to be there and are not.
func missingArchs(w *model.Web, required []string) []status.Cause {
	if len(required) == 0 {
		return nil
	}
	missing := CoverageOf(w.SortedWorkers(), required).Missing
	if len(missing) == 0 {
		return nil
	}
	return []status.Cause{{Kind: status.Active, Text: fmt.Sprintf("no worker has %s (required-archs)", strings.Join(missing, ", "))}}
}

package web

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Coverage holds the architectures of AMD GPUs that the related workers and the running
// workers on Windows have.
type Coverage struct {
	Architectures []CoveredArch `json:"architectures" yaml:"architectures"` // by name
	Missing       []string      `json:"missing" yaml:"missing,flow"`        // required-archs that no worker has
	// required-archs with all GPUs in quarantine
	Quarantined []string        `json:"quarantined" yaml:"quarantined,flow"`
	Unknown     []CoveringUnit  `json:"unknown" yaml:"unknown"` // AMD GPUs of unknown architecture
	Others      []CoveringUnit  `json:"others" yaml:"others"`   // GPUs of other vendors
	Workers     CoveringWorkers `json:"workers" yaml:"workers"`
	// NotListed is why workers on Windows are missing.
	NotListed string `json:"windows_unknown,omitempty" yaml:"windows_unknown,omitempty"`
}

// CoveredArch describes one architecture, with the units that have it.
type CoveredArch struct {
	Arch        string         `json:"architecture" yaml:"architecture"`
	Required    bool           `json:"required" yaml:"required"`
	GPUs        int            `json:"gpus" yaml:"gpus"`               // in all units
	Quarantined int            `json:"quarantined" yaml:"quarantined"` // GPUs in quarantine
	Units       []CoveringUnit `json:"units" yaml:"units"`
}

// CoveringUnit describes the unit of one worker in a list of Coverage.
type CoveringUnit struct {
	Unit        string `json:"unit" yaml:"unit"`               // "" for a worker on Windows
	Worker      string `json:"worker" yaml:"worker"`           // name at the web, "" if unpublished
	GPUs        int    `json:"gpus" yaml:"gpus"`               // in this list
	Quarantined int    `json:"quarantined" yaml:"quarantined"` // GPUs in quarantine
	Sharing     string `json:"sharing" yaml:"sharing"`
}

// MarshalYAML writes a unit in one line.
func (u CoveringUnit) MarshalYAML() (any, error) {
	type plain CoveringUnit
	var n yaml.Node
	err := n.Encode(plain(u))
	n.Style = yaml.FlowStyle
	return &n, err
}

// CoveringWorkers counts the related units and the running workers on Windows.
type CoveringWorkers struct {
	All  int `json:"all" yaml:"all"`
	GPUs int `json:"with_gpus" yaml:"with_gpus"`
}

// CoverageOf returns the architectures that workers publish, and compares them with
// required.
func CoverageOf(workers []model.Worker, required []string) Coverage {
	c := Coverage{Architectures: []CoveredArch{}, Missing: []string{}, Quarantined: []string{},
		Unknown: []CoveringUnit{}, Others: []CoveringUnit{}}
	at := func(arch string) *CoveredArch {
		i, found := slices.BinarySearchFunc(c.Architectures, arch, func(a CoveredArch, name string) int {
			return strings.Compare(a.Arch, name)
		})
		if !found {
			c.Architectures = slices.Insert(c.Architectures, i,
				CoveredArch{Arch: arch, Required: slices.Contains(required, arch), Units: []CoveringUnit{}})
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
		if !gpu.OfRuntime(w.GPUs.Runtime).Has(gpu.KFDNode) { // only KFD reports architectures
			c.Others = append(c.Others, unit)
			continue
		}
		unknown, quarantined := w.GPUs.Count, map[string]int{} // quarantined GPUs by architecture
		for _, g := range w.GPUs.Each {
			if g.Quarantined() {
				quarantined[g.GFX]++
			}
		}
		for _, a := range w.GPUs.Archs {
			unknown -= a.GPUs
			unit.GPUs, unit.Quarantined = a.GPUs, min(quarantined[a.Arch], a.GPUs)
			arch := at(a.Arch)
			arch.GPUs, arch.Quarantined = arch.GPUs+a.GPUs, arch.Quarantined+unit.Quarantined
			arch.Units = append(arch.Units, unit)
		}
		if unit.GPUs, unit.Quarantined = unknown, min(quarantined[""], unknown); unknown > 0 {
			c.Unknown = append(c.Unknown, unit)
		}
	}
	for _, arch := range required {
		switch a := at(arch); {
		case a.GPUs == 0:
			c.Missing = append(c.Missing, arch)
		case a.Quarantined == a.GPUs:
			c.Quarantined = append(c.Quarantined, arch)
		}
	}
	return c
}

// missingArchs warns about required architectures that no worker has, or that have all
// GPUs in quarantine.
func missingArchs(workers []model.Worker, required []string) (causes []status.Cause) {
	if len(required) == 0 {
		return nil
	}
	c := CoverageOf(workers, required)
	if len(c.Missing) > 0 {
		causes = append(causes, status.Warn("required-archs: no worker has %s", strings.Join(c.Missing, ", ")))
	}
	if len(c.Quarantined) > 0 {
		causes = append(causes, status.Warn("required-archs: all GPUs of %s are quarantined",
			strings.Join(c.Quarantined, ", ")))
	}
	return causes
}

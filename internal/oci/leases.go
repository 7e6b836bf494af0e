package oci

import (
	"fmt"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec"
)

// Leases make GPUs exclusive: a container that gets GPUs leases each of them
// (internal/pool/lease), and gets only those. How many, and which, its environment
// says: GPU_COUNT and the variables of Config.Visible. A container that gets
// none leases none; with All each container leases, the checks and gets too, and a
// worker with one GPU then runs one container at a time.
//
// Each entry of Config.Devices has to be one GPU, and no GPU may be there twice.
// Turning leases off or on concerns containers that are created afterwards: one
// that was created without keeps its GPUs unleased, so tasks should have ended
// before they are turned on.
type Leases struct {
	// Dir is the absolute path of their directory; empty means lease.DefaultDir.
	Dir string `json:"dir,omitempty"`
	// GPUs are the names of the leases of Config.Devices, in any order.
	GPUs []LeasedGPU `json:"gpus,omitempty"`
	// Links[i][j] tells how well the GPUs i and j of Config.Devices are joined, 0
	// to MaxLink; see lease.Leases. Empty: not known.
	Links [][]int `json:"links,omitempty"`
	// Bench says which of GPUs may have their clocks fixed for a task that measures; nil
	// is none.
	Bench *Bench `json:"bench,omitempty"`
}

// MaxLink bounds an entry of Leases.Links.
const MaxLink = 1000

func decodeLeases(v rawjson.Value) (*Leases, error) {
	if v.None() {
		return nil, nil
	}
	var l Leases
	return &l, fields(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "dir":
			l.Dir, err = text(v)
		case "gpus":
			l.GPUs, err = decodeLeasedGPUs(v)
		case "links":
			l.Links, err = matrix(v)
		case "bench":
			l.Bench, err = decodeBench(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func matrix(v rawjson.Value) (rows [][]int, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for r := range v.Elements() {
		if r.Kind() != rawjson.Array {
			return nil, fmt.Errorf("row %d: it is %s, not a list", len(rows), r.Kind())
		}
		row := make([]int, 0, r.Len())
		for e := range r.Elements() {
			n, err := e.Whole(MaxLink)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(rows), err)
			}
			row = append(row, int(n))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (l *Leases) check(devices []string) error {
	if l == nil {
		return nil
	}
	if !filepath.IsAbs(l.Dir) {
		return fmt.Errorf("leases: dir: %q is not an absolute path", l.Dir)
	}
	for _, d := range devices {
		_, name, _ := strings.Cut(d, "=")
		if name == cdispec.All {
			return fmt.Errorf("leases: %q stands for several GPUs, and a lease is of one; name each in devices", d)
		}
	}
	if n := len(l.Links); n > 0 && n != len(devices) {
		return fmt.Errorf("leases: links: there are %d rows for %d devices", n, len(devices))
	}
	for i, row := range l.Links {
		if len(row) != len(devices) {
			return fmt.Errorf("leases: links: row %d has %d entries for %d devices", i, len(row), len(devices))
		}
	}
	if err := l.Bench.check(); err != nil {
		return fmt.Errorf("leases: bench: %w", err)
	}
	return l.checkNames(devices)
}

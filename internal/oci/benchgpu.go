package oci

import (
	"fmt"
	"path/filepath"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/pool/clockpin"
)

// Bench says how clocks are fixed. A task never names a path: what is written to are files
// of the GPUs that it has leased.
type Bench struct {
	// Dir is the absolute path of the directory of pinned GPUs; empty means clockpin.DefaultDir.
	Dir string `json:"dir,omitempty"`
	// GPUs are those that may be pinned.
	GPUs []BenchGPU `json:"gpus"`
}

// BenchGPU is one GPU that may be pinned.
type BenchGPU struct {
	Name string `json:"name"` // of its lease
	// Sysfs is the absolute path of its PCI device's directory.
	Sysfs string         `json:"sysfs"`
	Level clockpin.Level `json:"level"`
}

func decodeBench(v rawjson.Value) (*Bench, error) {
	if v.None() {
		return nil, nil
	}
	var b Bench
	return &b, fields(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "dir":
			b.Dir, err = text(v)
		case "gpus":
			b.GPUs, err = decodeBenchGPUs(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func decodeBenchGPUs(v rawjson.Value) ([]BenchGPU, error) {
	return objects(v, func(g *BenchGPU, key string, v rawjson.Value) (err error) {
		switch key {
		case "name":
			g.Name, err = text(v)
		case "sysfs":
			g.Sysfs, err = text(v)
		case "level":
			g.Level = clockpin.Level(v.Text())
			err = v.As(rawjson.String)
		default:
			err = errUnknownField
		}
		return err
	})
}

func (b *Bench) check() error {
	if b == nil {
		return nil
	}
	if !filepath.IsAbs(b.Dir) {
		return fmt.Errorf("dir: %q is not an absolute path", b.Dir)
	}
	for _, g := range b.GPUs {
		if !clockpin.Plain(g.Name) {
			return fmt.Errorf("gpus: %q is not the PCI address of a whole GPU", g.Name)
		}
		if !filepath.IsAbs(g.Sysfs) {
			return fmt.Errorf("gpus: sysfs: %q is not an absolute path", g.Sysfs)
		}
		if err := g.Level.Check(); err != nil {
			return fmt.Errorf("gpus: level: %w", err)
		}
	}
	return nil
}

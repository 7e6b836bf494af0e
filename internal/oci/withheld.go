package oci

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/oci/visible"
	"concourse-ci-machine/internal/pool/admission"
)

// Withheld says where the GPUs are named that no new container gets, as they are sick
// or a person said so. Containers that have one keep it, and an exec asks nobody.
type Withheld struct {
	// File is the absolute path of a file that admission.Encode made. Where there is none,
	// no GPU is withheld. Nor is one where the file can't be understood or others than
	// root may write to it: what guards builds against a sick GPU must not stop all of
	// them. The charm writes it anew within seconds.
	File string `json:"file"`
	// GPUs are the names that the file has for Devices, in any order.
	GPUs []LeasedGPU `json:"gpus,omitempty"`
}

func decodeWithheld(v rawjson.Value) (*Withheld, error) {
	if v.None() {
		return nil, nil
	}
	var h Withheld
	return &h, fields(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "file":
			h.File, err = text(v)
		case "gpus":
			h.GPUs, err = decodeLeasedGPUs(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func (h *Withheld) check() error {
	if h == nil {
		return nil
	}
	if !filepath.IsAbs(h.File) {
		return fmt.Errorf("withheld: file: %q is not an absolute path", h.File)
	}
	return checkNamed("withheld", h.GPUs)
}

// readWithheld reads it; empty where there is none that can be gone by, see Withheld.File.
func (w *wrapper) readWithheld(s *settings) admission.File {
	if s.Withheld == nil {
		return admission.File{}
	}
	data, err := w.readTrusted(s.Withheld.File)
	if err != nil {
		return admission.File{}
	}
	f, _ := admission.Decode(data)
	return f
}

// withheld are the GPUs that no new container gets, by their device nodes.
func (s *settings) withheld(f admission.File) (out []visible.Withheld) {
	for _, g := range f.GPUs {
		at := slices.IndexFunc(s.Withheld.GPUs, func(l LeasedGPU) bool { return l.Name == g.Name })
		if at >= 0 { // one that tasks do not get anyway is nobody's business
			out = append(out, visible.Withheld{Nodes: s.Withheld.GPUs[at].Nodes, Why: strings.ToValidUTF8(g.Why, "?")})
		}
	}
	return out
}

package oci

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"concourse-ci-machine/internal/oci/rawjson"
	"concourse-ci-machine/internal/oci/visible"
)

// Withheld says where the GPUs are named that no new container gets, as they are sick
// or a person said so. Containers that have one keep it, and an exec asks nobody.
type Withheld struct {
	// File is the absolute path of a file that EncodeWithheld made. Where there is none,
	// no GPU is withheld. Nor is one where the file can't be understood or others than
	// root may write to it: what guards builds against a sick GPU must not stop all of
	// them. The charm writes it anew each 15 s.
	File string `json:"file"`
	// GPUs are the names that the file has for Devices, in any order.
	GPUs []LeasedGPU `json:"gpus,omitempty"`
}

// WithheldGPU is one GPU in Withheld.File.
type WithheldGPU struct {
	Name string
	Why  string // after its name, in messages: "is withheld since ..."
}

// EncodeWithheld makes the content of Withheld.File.
func EncodeWithheld(gpus []WithheldGPU) []byte {
	out := []byte(`{"gpus":[`)
	for i, g := range gpus {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendString(append(out, `{"name":`...), g.Name)
		out = append(rawjson.AppendString(append(out, `,"why":`...), g.Why), '}')
	}
	return append(out, "]}\n"...)
}

// maxWithheld bounds what is read of the file: more than 512 partitions have.
const maxWithheld = 512

// decodeWithheldFile reads what EncodeWithheld made, and forgives what a later charm adds.
// Nobody is told why it is not ok: see Withheld.File.
func decodeWithheldFile(data []byte) (gpus []WithheldGPU, ok bool) {
	doc, err := rawjson.Parse(data)
	if err != nil || doc.Root().Kind() != rawjson.Object {
		return nil, false
	}
	list, err := doc.Root().Of("gpus", rawjson.Array)
	if err != nil || list.None() || list.Len() > maxWithheld {
		return nil, false
	}
	for e := range list.Elements() {
		if e.Kind() != rawjson.Object {
			return nil, false
		}
		name, wrongName := e.StringOf("name")
		why, wrongWhy := e.StringOf("why")
		if wrongName != nil || wrongWhy != nil || name == "" || why == "" {
			return nil, false
		}
		gpus = append(gpus, WithheldGPU{name, why})
	}
	return gpus, true
}

// withheld are the GPUs that no new container gets, by their device nodes.
func (w *wrapper) withheld(s *settings) (out []visible.Withheld) {
	if s.Withheld == nil {
		return nil
	}
	data, err := w.readTrusted(s.Withheld.File)
	if err != nil {
		return nil // mostly there is none; see Withheld.File for the rest
	}
	gpus, ok := decodeWithheldFile(data)
	if !ok {
		return nil
	}
	for _, g := range gpus {
		at := slices.IndexFunc(s.Withheld.GPUs, func(l LeasedGPU) bool { return l.Name == g.Name })
		if at >= 0 { // one that tasks do not get anyway is nobody's business
			out = append(out, visible.Withheld{Nodes: s.Withheld.GPUs[at].Nodes, Why: strings.ToValidUTF8(g.Why, "?")})
		}
	}
	return out
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

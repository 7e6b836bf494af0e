// Package admission encodes the file in which a unit lists, for its wrapper, the GPUs that
// no new container gets, the GPUs that a task should not get again, and the memory that a
// free GPU may use.
package admission

import (
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
)

// File holds its content. Names are as in oci.Quarantine.GPUs and oci.Leases.GPUs.
type File struct {
	GPUs  []Quarantined
	Avoid []Avoided
	// Memory lists leased GPUs, which must be empty before the next task gets them.
	Memory []IdleMemory
}

// Quarantined names a GPU that no new container gets.
type Quarantined struct {
	Name   string
	Reason string // follows its name in messages: "is withheld since ..."
}

// Avoided names a GPU that a task gets only if no other is free, because a run of the same
// step had a fault on it.
type Avoided struct{ Name, StepHash string }

// IdleMemory bounds the memory in use of a GPU that no task has.
type IdleMemory struct {
	Name string
	File string // absolute, of sysfs: bytes in use now; reading it does not access the hardware
	Most uint64 // bytes
}

// Encode returns the file's bytes.
func Encode(f File) []byte {
	out := []byte(`{"gpus":[`)
	for i, g := range f.GPUs {
		out = appendPair(comma(out, i), "name", g.Name, "why", g.Reason)
	}
	if len(f.Avoid) > 0 {
		out = append(out, `],"avoid":[`...)
		for i, a := range f.Avoid {
			out = appendPair(comma(out, i), "name", a.Name, "like", a.StepHash)
		}
	}
	if len(f.Memory) > 0 {
		out = append(out, `],"memory":[`...)
		for i, m := range f.Memory {
			out = appendPair(comma(out, i), "name", m.Name, "file", m.File)
			out = append(strconv.AppendUint(append(out[:len(out)-1], `,"most":`...), m.Most, 10), '}')
		}
	}
	return append(out, "]}\n"...)
}

func comma(out []byte, i int) []byte {
	if i > 0 {
		return append(out, ',')
	}
	return out
}

func appendPair(out []byte, key1, value1, key2, value2 string) []byte {
	for i, s := range []string{key1, value1, key2, value2} {
		out = rawjson.AppendString(append(out, "{:,:"[i]), s)
	}
	return append(out, '}')
}

// maxGPUs bounds each list that is read. No unit has more than 512 partitions.
const maxGPUs = 512

// Decode reads the bytes of Encode and ignores fields of later charms. It returns no reason
// with ok == false, see oci.Quarantine.File.
func Decode(data []byte) (f File, ok bool) {
	doc, err := rawjson.Parse(data)
	if err != nil || doc.Root().Kind() != rawjson.Object {
		return f, false
	}
	if v, err := doc.Root().Get("gpus"); err != nil || v.None() {
		return f, false
	}
	ok = eachOf(doc, "gpus", "name", "why", func(name, why string, _ rawjson.Value) bool {
		f.GPUs = append(f.GPUs, Quarantined{name, why})
		return true
	}) && eachOf(doc, "avoid", "name", "like", func(name, like string, _ rawjson.Value) bool {
		f.Avoid = append(f.Avoid, Avoided{name, like})
		return true
	}) && eachOf(doc, "memory", "name", "file", func(name, file string, v rawjson.Value) bool {
		most, err := v.NumberOf("most", 1<<63-1)
		f.Memory = append(f.Memory, IdleMemory{name, file, most})
		return err == nil && strings.HasPrefix(file, "/")
	})
	if !ok {
		return File{}, false
	}
	return f, true
}

// eachOf calls each for the objects of a list. Both texts must be set in each object.
func eachOf(doc *rawjson.Doc, key, first, second string, each func(a, b string, v rawjson.Value) bool) bool {
	list, err := doc.Root().Of(key, rawjson.Array)
	if err != nil || list.Len() > maxGPUs {
		return false
	}
	for e := range list.Elements() {
		if e.Kind() != rawjson.Object {
			return false
		}
		a, wrongA := e.StringOf(first)
		b, wrongB := e.StringOf(second)
		if wrongA != nil || wrongB != nil || a == "" || b == "" || !each(a, b, e) {
			return false
		}
	}
	return true
}

// Package admission is the file by which a unit tells its wrapper which GPUs no new container
// gets, which a task is better not given again, and how empty a free one has to be.
package admission

import (
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
)

// File is its content. Names are those of oci.Withheld.GPUs, and of oci.Leases.GPUs.
type File struct {
	GPUs  []GPU
	Avoid []Avoided
	// Memory is of GPUs that are leased: what is free has to be empty as well.
	Memory []IdleMemory
}

// GPU is a GPU that no new container gets.
type GPU struct {
	Name string
	Why  string // after its name, in messages: "is withheld since ..."
}

// Avoided is a GPU that a task gets only where no other is free, as one like it met a
// fault there.
type Avoided struct{ Name, Like string }

// IdleMemory is how much of a GPU's memory may be in use when nobody has it.
type IdleMemory struct {
	Name string
	File string // absolute, of sysfs: bytes in use now; the driver asks no hardware for it
	Most uint64 // bytes
}

// Encode makes the file's bytes.
func Encode(f File) []byte {
	out := []byte(`{"gpus":[`)
	for i, g := range f.GPUs {
		out = appendPair(comma(out, i), "name", g.Name, "why", g.Why)
	}
	if len(f.Avoid) > 0 {
		out = append(out, `],"avoid":[`...)
		for i, a := range f.Avoid {
			out = appendPair(comma(out, i), "name", a.Name, "like", a.Like)
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

// maxGPUs bounds what is read of each list: more than 512 partitions have.
const maxGPUs = 512

// Decode reads what Encode made, and forgives what a later charm adds.
// Nobody is told why it is not ok: see oci.Withheld.File.
func Decode(data []byte) (f File, ok bool) {
	doc, err := rawjson.Parse(data)
	if err != nil || doc.Root().Kind() != rawjson.Object {
		return f, false
	}
	if v, err := doc.Root().Get("gpus"); err != nil || v.None() {
		return f, false
	}
	ok = eachOf(doc, "gpus", "name", "why", func(name, why string, _ rawjson.Value) bool {
		f.GPUs = append(f.GPUs, GPU{name, why})
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

// eachOf calls each for the objects of a list, which both texts have to be in.
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

// Package admission encodes the file in which a unit lists, for its wrapper, the GPUs that
// no new container gets, the GPUs that a task should not get again, the memory that a free GPU
// may use, and the memory that others use.
package admission

import (
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// File holds its content. Names are as in oci.Config.GPUs.
type File struct {
	GPUs  []Quarantined
	Avoid []Avoided
	// Memory lists leased GPUs, which must be empty before the next task gets them.
	Memory []IdleMemory
	// Taken lists GPUs with memory that others use. Tasks get GPUs with less of it first.
	Taken []Taken
}

// Quarantined names a GPU that no new container gets.
type Quarantined struct {
	Name   string
	Reason string // follows its name in messages: "has been quarantined since ..."
}

// Avoided names a GPU that a task gets only if no other is free, because a run of the same
// step had a fault on it or hung.
type Avoided struct{ Name, StepHash string }

// IdleMemory bounds the memory in use of a GPU that no task has.
type IdleMemory struct {
	Name string
	// Files are absolute, of sysfs: their sum is the bytes in use now. Reading them does not
	// access the hardware.
	Files []string
	Most  uint64 // bytes
}

// Taken holds the part of a GPU's memory that others use.
type Taken struct {
	Name    string
	Percent uint64
}

// members declares the format of the file.
func (f *File) members(c *rawjson.Codec) {
	c.Version(1)
	rawjson.List(c, "gpus", &f.GPUs, func(c *rawjson.Codec, g *Quarantined) {
		c.String("name", &g.Name)
		c.String("reason", &g.Reason)
	})
	rawjson.OptionalList(c, "avoid", &f.Avoid, func(c *rawjson.Codec, a *Avoided) {
		c.String("name", &a.Name)
		c.String("step_hash", &a.StepHash)
	})
	rawjson.OptionalList(c, "memory", &f.Memory, func(c *rawjson.Codec, m *IdleMemory) {
		c.String("name", &m.Name)
		c.Strings("files", &m.Files)
		c.Number("most", &m.Most, 1<<63-1)
	})
	rawjson.OptionalList(c, "taken", &f.Taken, func(c *rawjson.Codec, t *Taken) {
		c.String("name", &t.Name)
		c.Number("percent", &t.Percent, 100)
	})
}

// Encode returns the file's bytes.
func Encode(f File) []byte { return append(rawjson.Encode(nil, f.members), '\n') }

// maxGPUs bounds each list that is read. No unit has more than 512 partitions.
const maxGPUs = 512

// Decode reads the bytes of Encode and ignores fields of later charms. It returns no reason
// with ok == false, see oci.Config.Quarantine.
func Decode(data []byte) (f File, ok bool) {
	doc, err := rawjson.Parse(data)
	if err != nil || doc.Root().Kind() != rawjson.Object {
		return f, false
	}
	if v, _ := doc.Root().Get("gpus"); v.None() {
		return f, false
	}
	if err := rawjson.Decode(doc.Root(), f.members); err != nil || !f.valid() {
		return File{}, false
	}
	return f, true
}

// valid reports whether all texts are set.
func (f *File) valid() bool {
	return max(len(f.GPUs), len(f.Avoid), len(f.Memory), len(f.Taken)) <= maxGPUs &&
		!slices.ContainsFunc(f.GPUs, func(g Quarantined) bool { return g.Name == "" || g.Reason == "" }) &&
		!slices.ContainsFunc(f.Avoid, func(a Avoided) bool { return a.Name == "" || a.StepHash == "" }) &&
		!slices.ContainsFunc(f.Memory, func(m IdleMemory) bool {
			return m.Name == "" || len(m.Files) == 0 ||
				slices.ContainsFunc(m.Files, func(file string) bool { return !strings.HasPrefix(file, "/") })
		}) && !slices.ContainsFunc(f.Taken, func(t Taken) bool { return t.Name == "" })
}

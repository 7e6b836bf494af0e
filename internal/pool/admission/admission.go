// Package admission encodes the file in which a unit lists, for its wrapper, the GPUs that
// not every new container gets: which are excluded, which a task should not get again, the
// memory that a free GPU may use, and the memory that others use.
package admission

import (
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// File holds its content.
type File struct{ GPUs []GPU }

// GPU describes the admission of new containers to one GPU.
type GPU struct {
	Name string // as in oci.Config.GPUs
	// Reason is why no new container gets the GPU, "" if they do. It follows its name in
	// messages: "has been quarantined since ...".
	Reason string
	// Avoid has the hashes of steps with a run that had a fault on the GPU, or hung. Such a
	// step gets the GPU only if no other is free.
	Avoid []string
	// Files of sysfs are absolute: their sum is the bytes in use now. A leased GPU has them,
	// and must not use more than Most before the next task gets it. Reading them does not
	// access the hardware.
	Files []string
	Most  uint64 // bytes
	// Taken is the percent of its memory that others use. Tasks get GPUs with less of it first.
	Taken uint64
}

// IsZero reports whether every container gets the GPU.
func (g GPU) IsZero() bool {
	return g.Reason == "" && len(g.Avoid) == 0 && len(g.Files) == 0 && g.Taken == 0
}

// members declares the format of the file.
func (f *File) members(c *rawjson.Codec) {
	c.Version(1)
	rawjson.List(c, "gpus", &f.GPUs, func(c *rawjson.Codec, g *GPU) {
		c.String("name", &g.Name)
		c.OptionalString("reason", &g.Reason)
		if c.Reading() || len(g.Avoid) > 0 {
			c.Strings("avoid", &g.Avoid)
		}
		if c.Reading() || len(g.Files) > 0 {
			c.Strings("files", &g.Files)
			c.Number("most", &g.Most, 1<<63-1)
		}
		c.OptionalNumber("taken", &g.Taken, 100)
	})
}

// Encode returns the file's bytes.
func Encode(f File) []byte { return append(rawjson.Encode(nil, f.members), '\n') }

// maxGPUs bounds the list that is read. No unit has more than 512 partitions.
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

// valid reports whether the list is bounded, all names are set and all files absolute.
func (f *File) valid() bool {
	return len(f.GPUs) <= maxGPUs && !slices.ContainsFunc(f.GPUs, func(g GPU) bool {
		return g.Name == "" || slices.Contains(g.Avoid, "") ||
			slices.ContainsFunc(g.Files, func(file string) bool { return !strings.HasPrefix(file, "/") })
	})
}

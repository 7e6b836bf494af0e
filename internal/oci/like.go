package oci

import (
	"hash/fnv"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/oci/rawjson"
)

// like is the same for containers of one step that is run again, and mostly another for
// other steps: it is made of the names in the environment, which are those of the image
// and of the step's params, and of where volumes are mounted, as Concourse names these
// by the step and its inputs. No value is in it, as params can be secrets. "" is not
// known. Whoever writes a pipeline can have any: it decides nothing that would hurt others.
func like(root rawjson.Value) string {
	process, err := root.Of("process", rawjson.Object)
	if err != nil {
		return ""
	}
	env, err := process.Strings("env")
	if err != nil {
		return ""
	}
	mounts, err := root.Of("mounts", rawjson.Array)
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		_, _ = h.Write([]byte(name + "\n")) // it never fails
	}
	for m := range mounts.Elements() {
		if m.Kind() != rawjson.Object {
			return ""
		}
		destination, err := m.StringOf("destination")
		if err != nil {
			return ""
		}
		_, _ = h.Write([]byte(destination + "\n"))
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

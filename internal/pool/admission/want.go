package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Want returns the parts of a request for GPUs that the file decides. names are the GPUs'
// in the order of their indexes. read reads a small file of sysfs.
func (f File) Want(names []string, read func(file string) ([]byte, error)) lease.Want {
	want := lease.Want{Excluded: map[int]string{}, Avoid: map[int][]string{}, Taken: map[int]uint64{}}
	for i, name := range names {
		at := slices.IndexFunc(f.GPUs, func(q Quarantined) bool { return q.Name == name })
		if at >= 0 {
			want.Excluded[i] = strings.ToValidUTF8(f.GPUs[at].Reason, "?")
		}
		for _, t := range f.Taken {
			if t.Name == name {
				want.Taken[i] = t.Percent
			}
		}
		for _, a := range f.Avoid {
			if a.Name == name {
				want.Avoid[i] = append(want.Avoid[i], a.StepHash)
			}
		}
	}
	if len(f.Memory) > 0 {
		want.Unready = func(gpu int) string { return f.checkMemory(names[gpu], read) }
	}
	return want
}

// checkMemory returns why a free GPU is not empty, as read from the driver now. It returns
// "" for a GPU that is empty or cannot be read.
func (f File) checkMemory(gpu string, read func(file string) ([]byte, error)) string {
	for _, m := range f.Memory {
		if m.Name != gpu {
			continue
		}
		if used, ok := sum(m.Files, read); ok && used > m.Most {
			return fmt.Sprintf("has %s of its memory in use, though its last task has ended",
				units.Bytes(float64(used)))
		}
	}
	return ""
}

func sum(files []string, read func(file string) ([]byte, error)) (all uint64, ok bool) {
	for _, file := range files {
		data, err := read(file)
		if err != nil {
			return 0, false
		}
		used, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 62)
		if err != nil {
			return 0, false
		}
		all += used
	}
	return all, true
}

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
	has := make([]GPU, len(names))
	for i, name := range names {
		at := slices.IndexFunc(f.GPUs, func(g GPU) bool { return g.Name == name })
		if at < 0 {
			continue
		}
		has[i] = f.GPUs[at]
		if has[i].Reason != "" {
			want.Excluded[i] = strings.ToValidUTF8(has[i].Reason, "?")
		}
		if has[i].Taken > 0 {
			want.Taken[i] = has[i].Taken
		}
		if len(has[i].Avoid) > 0 {
			want.Avoid[i] = has[i].Avoid
		}
	}
	want.Unready = func(gpu int) string { return has[gpu].checkMemory(read) }
	return want
}

// checkMemory returns why a free GPU is not empty, as read from the driver now. It returns
// "" for a GPU that is empty or cannot be read.
func (g GPU) checkMemory(read func(file string) ([]byte, error)) string {
	if used, ok := sum(g.Files, read); ok && used > g.Most {
		return fmt.Sprintf("has %s of its memory in use, though its last task has ended", units.Bytes(float64(used)))
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

package relation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/config"
)

// WorkerGPUs is what a worker's unit tells of the GPUs that its tasks get. The
// zero value is that of a unit without.
type WorkerGPUs struct {
	Runtime   string      `json:"runtime,omitempty"` // rocm, cuda
	Count     int         `json:"count,omitempty"`
	Archs     []ArchCount `json:"archs,omitempty"`     // of AMD's, in the order of the GPUs; those of the GPUs that the kernel tells
	Exclusive bool        `json:"exclusive,omitempty"` // a task has its GPUs for its own
	Limited   bool        `json:"limited,omitempty"`   // the worker takes no more tasks at once than it has GPUs
	Each      []ToldGPU   `json:"each,omitempty"`      // nil: not told, as by an older charm
	Told      time.Time   `json:"told,omitzero"`       // when the unit began to tell this of each
}

// ArchCount is how many of a unit's GPUs have an architecture.
type ArchCount struct {
	Arch string `json:"arch"` // gfx942
	GPUs int    `json:"gpus"`
}

// CountArchs counts each architecture, in order; "" is one that is not known.
func CountArchs(archs []string) (counts []ArchCount) {
	at := map[string]int{}
	for _, a := range archs {
		if a == "" {
			continue
		}
		i, seen := at[a]
		if !seen {
			i, at[a] = len(counts), len(counts)
			counts = append(counts, ArchCount{Arch: a})
		}
		counts[i].GPUs++
	}
	return counts
}

// The keys of a worker's bag that are about GPUs.
const (
	runtimeKey = "compute-runtime"
	countKey   = "gpu-count"
	archsKey   = "gpu-archs"
	sharingKey = "gpu-sharing"
	limitKey   = "gpu-limit"
)

// Bag is these GPUs in the worker's bag; for a unit without GPUs each key is
// there with an empty value, which takes it away.
func (g WorkerGPUs) Bag() map[string]string {
	bag := map[string]string{runtimeKey: "", countKey: "", archsKey: "", sharingKey: "", limitKey: "", eachKey: ""}
	if g.Count == 0 {
		return bag
	}
	bag[runtimeKey], bag[countKey], bag[sharingKey] = g.Runtime, strconv.Itoa(g.Count), "shared"
	var archs []string
	for _, a := range g.Archs {
		archs = append(archs, fmt.Sprintf("%s=%d", a.Arch, a.GPUs))
	}
	bag[archsKey], bag[eachKey] = strings.Join(archs, ","), g.eachText()
	if g.Exclusive {
		bag[sharingKey], bag[limitKey] = "exclusive", "none"
		if g.Limited {
			bag[limitKey] = "own"
		}
	}
	return bag
}

// Bounds on what one unit tells: a machine has at most 8 GPUs of 8 partitions
// today.
const (
	maxGPUs      = 1024
	maxArchs     = 16
	maxArchsText = 1024
)

// ParseWorkerGPUs reads what a worker tells of its GPUs. What is wrong is left
// out and a problem; without a number of GPUs the unit counts as one without.
func ParseWorkerGPUs(bag map[string]string) (g WorkerGPUs, problems []string) {
	var r reader
	text := func(key string, legal ...string) string {
		s := strings.TrimSpace(bag[key])
		for _, l := range append(legal, "") {
			if s == l {
				return s
			}
		}
		r.bad(key, fmt.Errorf("%.100q is not one of %s", s, strings.Join(legal, ", ")))
		return ""
	}
	number := func(key, what string, most int) int {
		s := strings.TrimSpace(bag[key])
		n, err := strconv.Atoi(s)
		if s != "" && (err != nil || n < 0 || n > most) {
			r.bad(key, fmt.Errorf("%.100q is not a number of %s up to %d", s, what, most))
			return 0
		}
		return n
	}
	if g.Count = number(countKey, "GPUs", maxGPUs); g.Count == 0 {
		return WorkerGPUs{}, r.problems
	}
	g.Runtime = text(runtimeKey, "rocm", "cuda")
	g.Exclusive = text(sharingKey, "shared", "exclusive") == "exclusive"
	g.Limited = text(limitKey, "own", "none") == "own" && g.Exclusive
	var err error
	g.Archs, err = parseArchs(strings.TrimSpace(bag[archsKey]), g.Count)
	r.bad(archsKey, err)
	told, err := parseEach(bag[eachKey], g.Count)
	r.bad(eachKey, err)
	g.Each, g.Told = told.GPUs, told.At
	return g, r.problems
}

// parseArchs reads architecture=number pairs with commas between them, each
// architecture once and no more GPUs together than there are.
func parseArchs(s string, most int) (counts []ArchCount, err error) {
	if s == "" {
		return nil, nil
	}
	if len(s) > maxArchsText || strings.Count(s, ",") >= maxArchs {
		return nil, fmt.Errorf("want at most %d architectures", maxArchs)
	}
	seen, sum := map[string]bool{}, 0
	for part := range strings.SplitSeq(s, ",") {
		arch, number, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(number)
		if !config.IsArch(arch) || err != nil || n < 1 || n > most || seen[arch] {
			return nil, fmt.Errorf("%.100q is not an architecture and a number of GPUs, such as gfx942=8", part)
		}
		seen[arch] = true
		sum += n
		counts = append(counts, ArchCount{arch, n})
	}
	if sum > most {
		return nil, fmt.Errorf("%d GPUs are more than the %d of %s", sum, most, countKey)
	}
	return counts, nil
}

package relation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// WorkerGPUs holds the GPUs that tasks of a worker can use, as the worker publishes them.
// The zero value is a unit without GPUs.
type WorkerGPUs struct {
	Runtime   string          `json:"runtime,omitempty"` // rocm, cuda
	Count     int             `json:"count,omitempty"`
	Missing   int             `json:"missing,omitempty"`   // GPUs that the unit had
	Archs     []ArchCount     `json:"archs,omitempty"`     // of AMD GPUs, in order, if the kernel reports them
	Exclusive bool            `json:"exclusive,omitempty"` // no two tasks share a GPU
	Limited   bool            `json:"limited,omitempty"`   // the worker runs at most one task per GPU
	Each      []fleetfile.GPU `json:"each,omitempty"`      // nil if it publishes only their number
	Since     time.Time       `json:"since,omitzero"`      // first time with this value of Each
}

// Total returns the number of GPUs that the worker has when none is missing.
func (g WorkerGPUs) Total() int { return g.Count + g.Missing }

// WithoutEach returns the GPUs without the table of each, which a web only shows.
func (g WorkerGPUs) WithoutEach() WorkerGPUs {
	g.Each, g.Since = nil, time.Time{}
	return g
}

// ArchCount holds the number of a unit's GPUs with one architecture.
type ArchCount struct {
	Arch string `json:"arch"` // gfx942
	GPUs int    `json:"gpus"`
}

// CountArchs counts each architecture, in order of appearance, without unknown ones ("").
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

// Keys of a worker's databag about GPUs.
const (
	runtimeKey = "compute-runtime"
	countKey   = "gpu-count"
	missingKey = "gpu-missing"
	archsKey   = "gpu-archs"
	sharingKey = "gpu-sharing"
	limitKey   = "gpu-limit"
)

// Databag returns the keys of the worker's databag about GPUs. Without GPUs each key has an
// empty value, which removes it.
func (g WorkerGPUs) Databag() map[string]string {
	bag := map[string]string{runtimeKey: "", countKey: "", missingKey: "", archsKey: "", sharingKey: "", limitKey: "",
		eachKey: ""}
	if g.Total() == 0 {
		return bag
	}
	bag[runtimeKey], bag[countKey], bag[sharingKey] = g.Runtime, strconv.Itoa(g.Count), "shared"
	if g.Missing > 0 {
		bag[missingKey] = strconv.Itoa(g.Missing)
	}
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

// Bounds for the databag of one unit. A machine has at most 8 GPUs with 8 partitions today.
const (
	maxGPUs      = 1024
	maxArchs     = 16
	maxArchsText = 1024
)

// ParseWorkerGPUs reads a worker's databag about GPUs. An invalid value is left out and is
// a problem. Without a valid number of GPUs the result has no GPUs.
func ParseWorkerGPUs(bag map[string]string) (g WorkerGPUs, problems []string) {
	var r reader
	text := func(key string, legal ...string) string {
		s := strings.TrimSpace(bag[key])
		if slices.Contains(append(legal, ""), s) {
			return s
		}
		r.addProblem(key, fmt.Errorf("%.100q is not one of %s", s, strings.Join(legal, ", ")))
		return ""
	}
	number := func(key, what string, most int) int {
		s := strings.TrimSpace(bag[key])
		n, err := strconv.Atoi(s)
		if s != "" && (err != nil || n < 0 || n > most) {
			r.addProblem(key, fmt.Errorf("%.100q is not a number of %s up to %d", s, what, most))
			return 0
		}
		return n
	}
	g.Count, g.Missing = number(countKey, "GPUs", maxGPUs), number(missingKey, "GPUs", maxGPUs)
	if g.Total() == 0 {
		return WorkerGPUs{}, r.problems
	}
	g.Runtime = text(runtimeKey, gpu.Runtimes()...)
	g.Exclusive = text(sharingKey, "shared", "exclusive") == "exclusive"
	g.Limited = text(limitKey, "own", "none") == "own" && g.Exclusive
	var err error
	g.Archs, err = parseArchs(strings.TrimSpace(bag[archsKey]), g.Count)
	r.addProblem(archsKey, err)
	published, err := parseEach(bag[eachKey], g.Count)
	r.addProblem(eachKey, err)
	g.Each, g.Since = published.GPUs, published.At
	return g, r.problems
}

// parseArchs reads architecture=number pairs with commas between them. Each architecture
// appears once, and the sum is at most most.
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

// NewPublishedGPU returns the part of a record for the databag.
func NewPublishedGPU(r pool.Record, model string) fleetfile.GPU {
	g, shown := fleetfile.GPU{Index: r.Index, GFX: r.GFX, Model: model}, r.View()
	if shown.Service != nil {
		g.Service = string(shown.Service.State)
	}
	if shown.Lease != nil {
		g.Leased = &shown.Lease.Held
	}
	return g
}

// services are the states of quarantine.
var services = []string{"", string(quarantine.InService), "quarantined", "on_probation"}

// eachKey has publishedGPUs as JSON.
const eachKey = "gpus"

// publishedGPUs holds a unit's GPUs and the time at which they were first published. The
// time of the last look would change the databag in each hook, and each change triggers a
// hook of the web.
type publishedGPUs struct {
	At   time.Time       `json:"at"`
	GPUs []fleetfile.GPU `json:"gpus"`
}

// leaseTime is the least time between two changes of the databag that only update leases.
// Leases change with each task.
const leaseTime = 15 * time.Minute

// After returns the GPUs to publish at time now, if own is the current databag.
func (g WorkerGPUs) After(own map[string]string, now time.Time) WorkerGPUs {
	g.Each = named(g.Each) // like the databag, because otherwise they would always differ
	before, _ := ParseWorkerGPUs(own)
	since := now.Sub(before.Since)
	leases := !slices.EqualFunc(before.Each, g.Each, func(a, b fleetfile.GPU) bool { return leased(a) == leased(b) })
	same := len(before.Each) == len(g.Each) && slices.EqualFunc(before.Each, g.Each, func(a, b fleetfile.GPU) bool {
		a.Leased, b.Leased = nil, nil
		return a == b
	})
	if same && (!leases || since >= 0 && since < leaseTime) { // since < 0 if the clock was set back
		g.Each, g.Since = before.Each, before.Since
		return g
	}
	g.Since = now.UTC().Truncate(time.Second)
	return g
}

// leased returns 1 for a leased GPU, 0 for a free one, and -1 if it is unknown.
func leased(g fleetfile.GPU) int {
	switch {
	case g.Leased == nil:
		return -1
	case *g.Leased:
		return 1
	}
	return 0
}

// eachText returns the value of eachKey, "" if there are no GPUs to publish.
func (g WorkerGPUs) eachText() string {
	if len(g.Each) == 0 {
		return ""
	}
	data, err := json.Marshal(publishedGPUs{g.Since, named(g.Each)})
	if err != nil {
		return "" // only for a year that no clock shows
	}
	return string(data)
}

// named returns a copy with model names of one line.
func named(each []fleetfile.GPU) []fleetfile.GPU {
	each = slices.Clone(each)
	for i := range each {
		each[i].Model = modelName(each[i].Model)
	}
	return each
}

// maxModel bounds a GPU's name, in characters. The name may come from the card's memory.
const maxModel = 64

// modelName returns a name that fits into a line of a table.
func modelName(s string) string { return sanitize.Line(strings.TrimSpace(s), maxModel) }

// maxEachText exceeds the length of eachKey with maxGPUs.
const maxEachText = 256 << 10

// parseEach reads eachKey of a unit with count GPUs. One invalid GPU invalidates all.
func parseEach(s string, count int) (published publishedGPUs, err error) {
	if s == "" {
		return published, nil
	}
	if len(s) > maxEachText {
		return publishedGPUs{}, fmt.Errorf("%d bytes are more than the GPUs of a machine need", len(s))
	}
	if err := json.Unmarshal([]byte(s), &published); err != nil {
		return publishedGPUs{}, fmt.Errorf("%.100q is not a list of GPUs", s)
	}
	if len(published.GPUs) != count {
		return publishedGPUs{}, fmt.Errorf("%d GPUs are not the %d of %s", len(published.GPUs), count, countKey)
	}
	if published.At = published.At.UTC().Truncate(time.Second); published.At.Year() < 2000 ||
		published.At.Year() > 9000 {
		return publishedGPUs{}, fmt.Errorf("no clock shows the year %d", published.At.Year())
	}
	seen := map[int]bool{}
	for i := range published.GPUs {
		g := &published.GPUs[i]
		switch {
		case g.Index < 0 || g.Index >= maxGPUs || seen[g.Index]:
			return publishedGPUs{}, fmt.Errorf("there can't be two GPUs %d, nor one beyond %d", g.Index, maxGPUs)
		case g.GFX != "" && !config.IsArch(g.GFX):
			return publishedGPUs{}, fmt.Errorf("%.100q is not an architecture such as gfx942", g.GFX)
		case !slices.Contains(services, g.Service):
			return publishedGPUs{}, fmt.Errorf("%.100q is not a state of a GPU", g.Service)
		}
		seen[g.Index], g.Model = true, modelName(g.Model)
	}
	return published, nil
}

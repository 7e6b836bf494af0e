package relation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/sanitize"
	"concourse-ci-machine/internal/charm/config"
)

// ToldGPU is one GPU, or one partition, as its unit tells of it.
type ToldGPU struct {
	Index   int    `json:"index"` // the number that gpu-device-ids takes
	GFX     string `json:"gfx,omitempty"`
	Model   string `json:"model,omitempty"`
	Service string `json:"service,omitempty"` // a state of quarantine; "": nobody watches it
	Leased  *bool  `json:"leased,omitempty"`  // nil: tasks share it, or that is not known
}

// The words of quarantine, which no other package of relations needs.
var services = []string{"", inService, "withheld", "proving"}

const inService = "in_service"

// Out reports whether no new task gets it.
func (g ToldGPU) Out() bool { return g.Service != "" && g.Service != inService }

// Free reports whether a task can lease it.
func (g ToldGPU) Free() bool { return !g.Out() && g.Leased != nil && !*g.Leased }

// eachKey has toldGPUs as JSON.
const eachKey = "gpus"

// toldGPUs are a unit's GPUs, and when it began to tell this of them: a time of the last
// look would change the bag at each hook, and each change is a hook of the web.
type toldGPUs struct {
	At   time.Time `json:"at"`
	GPUs []ToldGPU `json:"gpus"`
}

// leaseTime is the least time between two changes of the bag for the sake of leases
// alone, which come and go with tasks.
const leaseTime = 15 * time.Minute

// After is what to tell at a time where own is the bag as it is.
func (g WorkerGPUs) After(own map[string]string, now time.Time) WorkerGPUs {
	g.Each = named(g.Each) // as the bag has it, or it would never be the same
	before, _ := ParseWorkerGPUs(own)
	since := now.Sub(before.Told)
	leases := !slices.EqualFunc(before.Each, g.Each, func(a, b ToldGPU) bool { return leased(a) == leased(b) })
	same := len(before.Each) == len(g.Each) && slices.EqualFunc(before.Each, g.Each, func(a, b ToldGPU) bool {
		a.Leased, b.Leased = nil, nil
		return a == b
	})
	if same && (!leases || since >= 0 && since < leaseTime) { // a clock that was set back holds nothing up
		g.Each, g.Told = before.Each, before.Told
		return g
	}
	g.Told = now.UTC().Truncate(time.Second)
	return g
}

// leased is -1 where that is not known.
func leased(g ToldGPU) int {
	switch {
	case g.Leased == nil:
		return -1
	case *g.Leased:
		return 1
	}
	return 0
}

// eachText is the value of eachKey, "" where there is none to tell of.
func (g WorkerGPUs) eachText() string {
	if len(g.Each) == 0 {
		return ""
	}
	data, err := json.Marshal(toldGPUs{g.Told, named(g.Each)})
	if err != nil {
		return "" // only a year that no clock has
	}
	return string(data)
}

// named has names of one line.
func named(each []ToldGPU) []ToldGPU {
	each = slices.Clone(each)
	for i := range each {
		each[i].Model = modelName(each[i].Model)
	}
	return each
}

// maxModel bounds the name of a GPU, in characters. It may come from a card's memory.
const maxModel = 64

// modelName is a name for one line of a table.
func modelName(s string) string { return sanitize.Line(strings.TrimSpace(s), maxModel) }

// maxEachText is more than maxGPUs need.
const maxEachText = 256 << 10

// parseEach reads eachKey of a unit with so many GPUs. It is all of it or nothing.
func parseEach(s string, count int) (told toldGPUs, err error) {
	if s == "" { // an older charm
		return told, nil
	}
	if len(s) > maxEachText {
		return toldGPUs{}, fmt.Errorf("%d bytes are more than the GPUs of a machine need", len(s))
	}
	if err := json.Unmarshal([]byte(s), &told); err != nil {
		return toldGPUs{}, fmt.Errorf("%.100q is not a list of GPUs", s)
	}
	if len(told.GPUs) != count {
		return toldGPUs{}, fmt.Errorf("%d GPUs are not the %d of %s", len(told.GPUs), count, countKey)
	}
	if told.At = told.At.UTC().Truncate(time.Second); told.At.Year() < 2000 || told.At.Year() > 9000 {
		return toldGPUs{}, fmt.Errorf("no clock shows the year %d", told.At.Year())
	}
	seen := map[int]bool{}
	for i := range told.GPUs {
		g := &told.GPUs[i]
		switch {
		case g.Index < 0 || g.Index >= maxGPUs || seen[g.Index]:
			return toldGPUs{}, fmt.Errorf("there can't be two GPUs %d, nor one beyond %d", g.Index, maxGPUs)
		case g.GFX != "" && !config.IsArch(g.GFX):
			return toldGPUs{}, fmt.Errorf("%.100q is not an architecture such as gfx942", g.GFX)
		case !slices.Contains(services, g.Service):
			return toldGPUs{}, fmt.Errorf("%.100q is not a state of a GPU", g.Service)
		}
		seen[g.Index], g.Model = true, modelName(g.Model)
	}
	return told, nil
}

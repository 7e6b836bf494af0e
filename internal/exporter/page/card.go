package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// card describes a GPU on the page, with its partitions if it is divided.
type card struct {
	ID, Name   string // "GPU 3", "GPU 8 to 15"
	Model, PCI string
	Identity   string // further identification
	State      health.State
	Mark       string // of the state, for readers who do not see colours
	Score      string
	Reason     string
	Explained  []explanation
	Excluded   *exclusion
	Meters     []meter
	Facts      []fact
	Faults     []pastFault
	Divided    bool
	Parts      []part // one part for a whole GPU
}

// explanation explains an error of the GPU.
type explanation struct {
	health.Explanation
	Command string // shows more
	Runbook string
}

// Faulty reports whether the reason is a fault.
func (g card) Faulty() bool { return g.State == health.Critical || g.State == health.Warning }

// Drawn reports whether a chart is shown.
func (g card) Drawn() bool {
	return slices.ContainsFunc(g.Meters, func(m meter) bool { return m.Chart != nil })
}

// Edge returns the class of the card's edge: the worst of health and quarantine. A GPU that
// tasks do not get has no healthy edge.
func (g card) Edge() string {
	if g.Excluded != nil && g.State != health.Critical {
		return g.Excluded.Class
	}
	return string(g.State)
}

// part describes a part that a task can use: a partition, or the whole GPU.
type part struct {
	ID, Name string // "partition 3"
	GPU      string // "GPU 11"
	Meter    meter  // load of a partition
	Uses     []use
	Unused   string // text without uses
	Last     *use   // last holder of a free GPU
	Doubt    string // of its lease
	Excluded *exclusion
}

// use describes a container that has the GPU, or had it last.
type use struct {
	Name, Build string // name and address of its build
	Brief, Text string // its lease, and the rest
	Processes   string // names, "" if Name has them
}

// exclusion explains why the GPU is excluded from new tasks.
type exclusion struct {
	Class   string // of the state, also in links
	Name    string
	Mark    string // for readers who do not see colours
	Text    string // start and reason
	Runbook string
}

// pastFault describes a fault of the last day.
type pastFault struct {
	At    string
	Text  string
	Task  *use
	Cause string
}

var marks = map[health.State]string{
	health.Healthy: "✓", health.Warning: "!", health.Critical: "✕", health.Unknown: "?",
}

var exclusionMarks = map[quarantine.State]string{quarantine.Quarantined: "⊘", quarantine.OnProbation: "↻"}

// exclusionOf returns why parts of one GPU are excluded, nil if tasks get all of them. If several
// are excluded, it describes the earliest.
func exclusionOf(all []api.Status) *exclusion {
	n, first := 0, (*pool.Service)(nil)
	for i := range all {
		if !all[i].Excluded() {
			continue
		}
		if n++; first == nil || all[i].Service.Since.Before(first.Since) {
			first = all[i].Service
		}
	}
	if n == 0 {
		return nil
	}
	out := &exclusion{string(first.State), first.State.String(), exclusionMarks[first.State],
		first.Text(), docs + quarantinePage}
	if len(all) > 1 {
		out.Text = fmt.Sprintf("%d of %d partitions, the first %s", n, len(all), out.Text)
	}
	return out
}

// rank sorts GPUs that tasks get behind others of the same health.
func (o *exclusion) rank() int {
	if o == nil {
		return 1
	}
	return 0
}

// newCard converts the statuses of one GPU. The first has the sensors.
func newCard(r api.Report, all []api.Status, links Links) card {
	s := &all[0]
	g := card{ID: "gpu-" + s.PCI, Name: fmt.Sprintf("GPU %d", s.Index), Model: s.Name, PCI: s.PCI,
		State: api.StateOf(*s), Reason: s.Health.Reason, Excluded: exclusionOf(all), Divided: s.Partitions > 1,
		Meters: metersOf(s), Facts: factsOf(s)}
	g.Mark = marks[g.State]
	if s.Health.Score != nil {
		g.Score = fmt.Sprintf("%.0f of 100", *s.Health.Score)
	}
	command := cmp.Or(links.Explain, wellknown.GPUKit+" explain ")
	for _, e := range s.Explained {
		g.Explained = append(g.Explained, explanation{e, command + strconv.Itoa(e.Code), errorURL(e.Code)})
	}
	for _, f := range s.PastFaults {
		fault := pastFault{At: quarantine.FormatTime(f.At), Text: f.Text, Cause: causes[f.Cause]}
		if f.Container != "" {
			fault.Task = &use{Name: f.Container, Build: links.buildURL(f.Container)}
		}
		g.Faults = append(g.Faults, fault)
	}
	what := []string{s.GFX}
	if s.UUID != s.PCI && !g.Divided {
		what = append(what, s.UUID)
	}
	if g.Divided {
		mode := strings.Trim(s.ComputePartition+"/"+s.MemoryPartition, "/")
		what = append(what, mode, fmt.Sprintf("%d of %d partitions", len(all), s.Partitions))
		if last := all[len(all)-1].Index; last > s.Index {
			g.Name += fmt.Sprintf(" to %d", last)
		}
	}
	if s.Driver != "" {
		what = append(what, "driver "+s.Driver)
	}
	g.Identity = strings.Join(slices.DeleteFunc(what, func(w string) bool { return w == "" }), ", ")
	for i := range all {
		g.Parts = append(g.Parts, newPart(&all[i], r.Time, links))
	}
	return g
}

// causes has the words for the cause of a fault.
var causes = map[quarantine.Verdict]string{quarantine.Infrastructure: "GPU, driver or machine",
	quarantine.TaskCaused: "the task"}

func newPart(s *api.Status, at time.Time, links Links) part {
	p := part{ID: fmt.Sprintf("gpu-%s-%d", s.PCI, s.Partition), Name: fmt.Sprintf("partition %d", s.Partition),
		GPU: fmt.Sprintf("GPU %d", s.Index), Excluded: exclusionOf([]api.Status{*s}), Unused: api.Unused(*s)}
	for _, u := range api.UsesOf(*s, at) {
		brief := ""
		if u.Lease != "" {
			brief, u.Lease = "leased: "+u.Lease, ""
		}
		one := use{Name: u.Name, Build: links.buildURL(u.Name), Brief: brief, Text: u.Text()}
		if names := u.ProcessNames(); names != u.Name {
			one.Processes = names
		}
		p.Uses = append(p.Uses, one)
	}
	if l := s.Lease; l != nil {
		p.Doubt = l.Doubt
		if l.Last != nil && !l.Held {
			p.Last = lastHolder(l.Last, links)
		}
	}
	history := cmp.Or(s.History, &api.History{})
	p.Meter = loadMeter(s, s.Activity, past{history.Activity, history.Interval})
	return p
}

func lastHolder(h *pool.Holder, links Links) *use {
	u := &use{Name: h.Name(), Build: links.buildURL(h.Container)}
	if h.Since != nil {
		u.Brief = "since " + quarantine.FormatTime(*h.Since)
	}
	return u
}

// More returns the number of further uses.
func (p part) More() int { return max(0, len(p.Uses)-1) }

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// seen holds the last answer of a worker.
type seen struct {
	gpus []gpu
	at   time.Time // zero: it never answered
	err  error     // of the last question
}

// observed holds everything that a report is made from.
type observed struct {
	at      time.Time
	file    fleetfile.File
	site    jobexporter.Site
	answers map[string]seen // by URL
	waiting map[group]int   // nil: unknown
	since   map[group]time.Time
}

// report returns the workers, the waiting steps and their sums. It is pure.
func (o observed) report() Report {
	out := Report{Time: o.at.UTC().Truncate(time.Second), Workers: []Worker{}, Waiting: []Waiting{},
		Concourse: Concourse{URL: o.file.Concourse, Problem: o.site.Problem}}
	if at := o.site.Time.UTC().Truncate(time.Second); !o.site.Time.IsZero() {
		out.Concourse.Time = &at
	}
	listed := map[string]jobexporter.Worker{} // by name
	for _, w := range o.site.Workers {
		listed[w.Name] = w
	}
	for _, w := range o.file.Workers {
		out.Workers = append(out.Workers, o.worker(w, name(listed[w.Name].State)))
		delete(listed, w.Name)
	}
	slices.SortStableFunc(out.Workers, func(a, b Worker) int { return naturally(a.Unit, b.Unit) })
	for _, other := range slices.Sorted(maps.Keys(listed)) {
		out.Workers = append(out.Workers, otherWorker(listed[other]))
	}
	for g, n := range o.waiting {
		if g.Type != "task" {
			continue
		}
		one := Waiting{Team: g.Team, Type: g.Type, Tags: g.Tags, Steps: n, Reason: "Concourse does not answer",
			Builds: o.candidates(g.Team)}
		if out.Concourse.Time != nil {
			one.Reason = reasonOf(g, o.site.Workers, out.Workers)
		}
		if at, known := o.since[g]; known {
			at = at.UTC().Truncate(time.Second)
			one.Since = &at
		}
		out.Waiting = append(out.Waiting, one)
	}
	slices.SortFunc(out.Waiting, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(b.Steps, a.Steps), cmp.Compare(a.Team, b.Team), cmp.Compare(a.Tags, b.Tags))
	})
	out.Coverage = coverage(out.Workers, o.file.RequiredArchs)
	// Metrics of a web without a database show no waiting steps.
	known := o.waiting != nil && (len(out.Waiting) > 0 || o.site.Problem == "")
	out.Summary = SummaryOf(out, known)
	var waiting map[string]int
	if known {
		waiting = o.waitingByKind(out.Workers)
	}
	out.Starts = StartsOf(out, waiting)
	return out
}

// candidates returns the started builds of a team that had no task yet, or all if there is
// none. Concourse does not report which of them waits, and of each job only the oldest build
// that has not ended.
func (o observed) candidates(team string) []Build {
	other := func(s jobexporter.Started) bool { return name(s.Team) != team }
	all := slices.DeleteFunc(slices.Clone(o.site.Started), other)
	hadTask := func(s jobexporter.Started) bool { return s.Task }
	if fresh := slices.DeleteFunc(slices.Clone(all), hadTask); len(fresh) > 0 {
		all = fresh
	}
	out := []Build{}
	for _, b := range all {
		one := Build{Pipeline: name(b.Pipeline), Job: name(b.Job), Build: name(b.Name)}
		if o.file.Concourse != "" {
			one.URL = buildURL(o.file.Concourse, b.ID)
		}
		out = append(out, one)
	}
	return out
}

// otherWorker returns a worker that no related unit has. A worker on Windows has no exporter,
// and its tags describe its GPUs. It answers as long as Concourse hears of it.
func otherWorker(w jobexporter.Worker) Worker {
	out := Worker{Worker: name(w.Name), State: name(w.State), GPUs: []GPU{}}
	if w.Platform != beacon.Windows {
		return out
	}
	out.Platform = beacon.Windows
	if out.Answered = w.State == "running"; !out.Answered {
		out.Problem = "Concourse lists it as " + out.State
	}
	for i, arch := range beacon.GPUsOf(w.Tags).Archs {
		out.GPUs = append(out.GPUs, GPU{Index: i, GFX: arch, Health: health.Unknown, Use: Unknown, Holders: []Holder{}})
	}
	return out
}

// worker joins the published GPUs of a worker with its exporter's last answer.
func (o observed) worker(w fleetfile.Worker, state string) Worker {
	out := Worker{Unit: name(w.Unit), Worker: name(w.Name), State: state, GPUs: []GPU{}}
	if !w.Watched() {
		if out.Answered = w.Count == 0; !out.Answered {
			out.Problem = "its address is unknown"
			out.GPUs = publishedGPUs(w)
		}
		return out
	}
	out.URL = w.URL
	last := o.answers[w.URL]
	if !last.at.IsZero() {
		at := last.at.UTC().Truncate(time.Second)
		out.Time = &at
	}
	if out.Answered = last.err == nil && !last.at.IsZero(); !out.Answered {
		out.Problem = "not asked yet"
		if last.err != nil {
			out.Problem = last.err.Error()
		}
	}
	if last.at.IsZero() {
		out.GPUs = publishedGPUs(w)
		return out
	}
	power := map[string]float64{} // of whole GPUs, by PCI address
	for _, g := range last.gpus {
		if g.Power != nil {
			power[g.PCI] = *g.Power
		}
	}
	for _, g := range last.gpus {
		one := o.gpu(g)
		one.watts = power[g.PCI] / float64(g.Partitions)
		if !out.Answered {
			one.Use, one.Health, one.Reason, one.Holders = Unknown, health.Unknown, "", []Holder{}
		}
		out.GPUs = append(out.GPUs, one)
	}
	return out
}

// publishedGPUs returns the GPUs of a worker that never answered.
func publishedGPUs(w fleetfile.Worker) []GPU {
	out := []GPU{}
	for i := range w.Count {
		g := GPU{Index: i, Health: health.Unknown, Use: Unknown, Holders: []Holder{}}
		if i < len(w.GPUs) {
			p := w.GPUs[i]
			g.Index, g.GFX, g.Model = p.Index, name(p.GFX), name(p.Model)
		}
		out = append(out, g)
	}
	return out
}

// gpu joins a GPU with the builds of its containers.
func (o observed) gpu(g gpu) GPU {
	out := GPU{Index: g.Index, Vendor: g.Vendor, Model: g.Name, GFX: g.GFX, PCI: g.PCI, Partition: g.Partition,
		Health: g.Health.State, View: g.View, Holders: []Holder{}, Temperature: g.Temperature, Power: g.Power,
		Activity: g.Activity, MemoryUsed: g.MemoryUsed, MemoryTotal: g.MemoryTotal}
	if out.Activity == nil {
		out.Activity = g.SocketActivity
	}
	if out.Health != health.Healthy {
		out.Reason = g.Health.Reason
	}
	switch l := g.Lease; {
	case l != nil && l.Held:
		out.Use = Leased
		h := o.holder(holderName(*l))
		h.Title = l.Title
		out.Holders = append(out.Holders, h)
	case l != nil:
		out.Use = Free
	case g.Users == nil:
		out.Use = Unknown
	default:
		out.Use = Free
		for _, u := range g.Users {
			if u.Processes > 0 {
				out.Use = InUse
				out.Holders = append(out.Holders, o.holder(u.Container))
			}
		}
		if out.Use == Free && api.Unseen(g.Activity) {
			out.Use = Unknown
		}
	}
	if g.Service != nil {
		switch g.Service.State {
		case quarantine.Quarantined:
			out.Use = Quarantined
		case quarantine.OnProbation:
			out.Use = OnProbation
		}
	}
	if o.file.HideNames && out.Lease != nil {
		l := *out.Lease
		l.Namespace, l.Pod, l.Title, out.Lease = "", "", "", &l
	}
	return out
}

// holderName returns the container of a lease, or its pod.
func holderName(l pool.Lease) string {
	if l.Pod != "" {
		return "pod " + l.Namespace + "/" + l.Pod
	}
	return l.Container
}

// holder returns the build of a container.
func (o observed) holder(container string) Holder {
	h := Holder{Container: container}
	if strings.HasPrefix(container, "pod ") && o.file.HideNames {
		h.Container = "pod"
	}
	b, known := o.site.Builds[container]
	if !known || !wellknown.IsHandle(container) {
		return h
	}
	if b.ID > 0 && o.file.Concourse != "" {
		h.URL = buildURL(o.file.Concourse, b.ID)
	}
	h.Build, h.Team, h.Pipeline, h.Job, h.Step = name(b.Name), name(b.Team), name(b.Pipeline), name(b.Job), name(b.Step)
	return h
}

// coverage counts the GPUs of each architecture.
func coverage(workers []Worker, required []string) []Covered {
	by := map[string]*Covered{}
	for _, arch := range required {
		by[arch] = &Covered{Arch: arch, Required: true}
	}
	for _, w := range workers {
		if w.Platform != "" && !w.Answered {
			continue // it has no databag that would keep it
		}
		here := map[string]bool{}
		for _, g := range w.GPUs {
			if g.GFX == "" {
				continue
			}
			c := by[g.GFX]
			if c == nil {
				c = &Covered{Arch: g.GFX}
				by[g.GFX] = c
			}
			if c.GPUs++; g.Excluded() {
				c.Quarantined++
			}
			if !here[g.GFX] {
				here[g.GFX] = true
				c.Workers++
			}
		}
	}
	out := []Covered{}
	for _, arch := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[arch])
	}
	return out
}

// SummaryOf counts the workers and GPUs of a report. waiting reports whether its waiting
// tasks are known.
func SummaryOf(r Report, waiting bool) (s Summary) {
	load := 0.0
	for _, w := range r.Workers {
		if s.Workers++; !w.Answered && len(w.GPUs) > 0 {
			s.Away++
		}
		for _, g := range w.GPUs {
			s.GPUs++
			switch g.Use {
			case Free:
				s.Free++
			case Leased, InUse:
				s.Busy++
			case Quarantined:
				s.Quarantined++
			case OnProbation:
				s.OnProbation++
			default:
				s.Unknown++
			}
			switch g.Health {
			case health.Critical:
				s.Critical++
			case health.Warning:
				s.Warning++
			}
			if !w.Answered {
				continue
			}
			if g.Activity != nil {
				load, s.measured = load+*g.Activity, s.measured+1
			}
			if g.Power != nil {
				s.Power, s.powered = s.Power+*g.Power, s.powered+1
			}
		}
	}
	if s.measured > 0 {
		s.Load = round(load/float64(s.measured), 1000)
	}
	if s.Power = round(s.Power, 1); waiting {
		n := 0
		for _, w := range r.Waiting {
			n += w.Steps
		}
		s.Waiting = &n
	}
	return s
}

// hide removes the names of teams and their pipelines. Usage of all teams becomes one line,
// and steps that wait for the same tags one group.
func (r *Report) hide() {
	for i := range r.Workers {
		for j := range r.Workers[i].GPUs {
			holders := r.Workers[i].GPUs[j].Holders
			for k := range holders {
				holders[k] = Holder{Container: holders[k].Container, URL: holders[k].URL}
			}
		}
	}
	merged := []Waiting{}
	for _, w := range r.Waiting {
		w.Team = ""
		builds := []Build{}
		for _, b := range w.Builds {
			if b.URL != "" {
				builds = append(builds, Build{URL: b.URL})
			}
		}
		w.Builds = builds
		same := func(o Waiting) bool { return o.Type == w.Type && o.Tags == w.Tags && o.Reason == w.Reason }
		if i := slices.IndexFunc(merged, same); i >= 0 {
			m := &merged[i]
			m.Steps, m.Builds = m.Steps+w.Steps, append(m.Builds, w.Builds...)
			if w.Since != nil && (m.Since == nil || w.Since.Before(*m.Since)) {
				m.Since = w.Since
			}
			continue
		}
		merged = append(merged, w)
	}
	var sum TeamUsage
	for _, t := range r.Today.Teams {
		sum.Hours, sum.Energy = round(sum.Hours+t.Hours, 1000), round(sum.Energy+t.Energy, 1000)
	}
	if r.Waiting = merged; len(r.Today.Teams) > 0 {
		r.Today.Teams = []TeamUsage{sum}
	}
}

// naturally sorts gpu/2 before gpu/10.
func naturally(a, b string) int {
	x, m, _ := strings.Cut(a, "/")
	y, n, _ := strings.Cut(b, "/")
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(m), len(n)), cmp.Compare(m, n))
}

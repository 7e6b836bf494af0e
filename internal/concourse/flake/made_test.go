package flake

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
)

// truth is the label of a series: the kind of its defect and its place.
type truth struct {
	kind Kind // "": it fails only because of commits or outages
	spot spot
}

// defect is one injected cause of failures of a job's test.
type defect struct {
	kind Kind
	rate float64
	spot spot
}

// outageOf ends all runs of a worker, or of all workers, for a time.
type outageOf struct {
	worker   string
	from, to time.Time
}

// madeSite is a Concourse of two weeks with known defects. Everything comes from the seed.
type madeSite struct {
	*rand.Rand
	workers, gpus int
	start         time.Time
	outages       []outageOf
	bad           spot    // hardware on which every task fails at times
	badRate       float64 //
	verdicts      bool    // lost runs have one
	runs          []Run
	labels        map[Key]truth
	build         int
	reports       map[string]*testreport.Report
}

// madeJob is a job with one task and a few tests.
type madeJob struct {
	key     Key
	tests   int
	defects map[int]defect // by test
	broken  map[int]int    // tests by commit that a change broke
	breaks  []outageOf     // times in which something outside of the inputs fails it
}

const days = 14

func makeSite(seed uint64, verdicts bool) *madeSite {
	s := &madeSite{Rand: rand.New(rand.NewPCG(seed, 36)), workers: 3, gpus: 4, verdicts: verdicts,
		start: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), labels: map[Key]truth{}, reports: map[string]*testreport.Report{}}
	for range 4 {
		o := outageOf{from: s.start.Add(time.Duration(s.Float64() * days * 24 * float64(time.Hour)))}
		if o.to = o.from.Add(time.Duration(5+s.IntN(60)) * time.Minute); s.IntN(3) > 0 {
			o.worker = s.worker(s.IntN(s.workers))
		}
		s.outages = append(s.outages, o)
	}
	if s.IntN(2) == 0 {
		s.bad, s.badRate = s.anywhere(KindGPU), 0.15+0.2*s.Float64()
	}
	commits := 120 + s.IntN(80)
	for n := range 16 {
		s.play(s.job(n, commits), commits)
	}
	return s
}

func (s *madeSite) worker(n int) string { return fmt.Sprintf("worker-%d", n) }

// anywhere returns a random GPU or worker.
func (s *madeSite) anywhere(k Kind) spot {
	p := spot{worker: s.worker(s.IntN(s.workers))}
	if k == KindGPU {
		p.gpu = fmt.Sprint(s.IntN(s.gpus))
	}
	return p
}

// job makes a job: half of them have no defect, and all have regressions.
func (s *madeSite) job(n, commits int) *madeJob {
	j := &madeJob{key: Key{Team: "main", Pipeline: "rocm", Job: fmt.Sprintf("job-%02d", n), Step: "unit"}, tests: 6,
		defects: map[int]defect{}, broken: map[int]int{}}
	switch n % 8 {
	case 0, 1:
		j.defects[s.IntN(j.tests)] = defect{kind: KindTest, rate: 0.03 + 0.3*s.Float64()}
	case 2:
		j.defects[s.IntN(j.tests)] = defect{KindGPU, 0.6 + 0.4*s.Float64(), s.anywhere(KindGPU)}
	case 3:
		j.defects[s.IntN(j.tests)] = defect{KindWorker, 0.5 + 0.5*s.Float64(), s.anywhere(KindWorker)}
	}
	for test, d := range j.defects {
		k := j.key
		k.Test = fmt.Sprintf("test_%d", test)
		s.labels[k] = truth{d.kind, d.spot}
	}
	for range 1 + s.IntN(4) {
		from, test := s.IntN(commits), s.IntN(j.tests)
		for c := range 1 + s.IntN(12) {
			j.broken[from+c] = test
		}
	}
	if s.IntN(3) == 0 {
		from := s.start.Add(time.Duration(s.Float64() * days * 24 * float64(time.Hour)))
		j.breaks = append(j.breaks, outageOf{from: from, to: from.Add(time.Duration(2+s.IntN(22)) * time.Hour)})
	}
	return j
}

// play runs a job on each commit, and again after most failures, as people do.
func (s *madeSite) play(j *madeJob, commits int) {
	for c := range commits {
		at := s.start.Add(time.Duration(float64(c) / float64(commits) * days * 24 * float64(time.Hour)))
		at = at.Add(time.Duration(s.IntN(30)) * time.Minute)
		again := 0
		if s.Float64() < 0.1 {
			again = 1 // another resource triggers the same inputs
		}
		for range 4 {
			failed := s.run(j, c, at)
			at = at.Add(time.Duration(10+s.IntN(40)) * time.Minute)
			if again--; (!failed || s.Float64() > 0.7) && again < 0 {
				break
			}
		}
	}
}

// run adds a run and reports whether it failed.
func (s *madeSite) run(j *madeJob, commit int, at time.Time) bool {
	s.build++
	// The lowest free GPU is the most used one.
	gpu := min(s.IntN(s.gpus), s.IntN(s.gpus))
	r := Run{Key: j.key, Build: s.build, Name: fmt.Sprint(s.build), Inputs: fmt.Sprint("commit ", commit), Time: at,
		Worker: s.worker(s.IntN(s.workers)), GPUs: []string{fmt.Sprint(gpu)}, Result: Passed}
	defer func() { s.runs = append(s.runs, r) }()
	for _, o := range s.outages {
		if !at.Before(o.from) && at.Before(o.to) && (o.worker == "" || o.worker == r.Worker) {
			if r.Result = Failed; s.verdicts {
				r.Cause = ByMachine
			} else if s.IntN(2) == 0 {
				r.Result = Errored
			}
			return true
		}
	}
	for _, o := range j.breaks {
		if !at.Before(o.from) && at.Before(o.to) {
			r.Result = Failed
			return true
		}
	}
	if s.bad.on(r) && s.Float64() < s.badRate {
		if r.Result = Failed; s.verdicts {
			r.Cause = ByGPU
		}
		return true
	}
	text := "<t>"
	for test := range j.tests {
		failing := false
		if d, is := j.defects[test]; is && (d.kind == KindTest || d.spot.on(r)) {
			failing = s.Float64() < d.rate
		}
		if broken, is := j.broken[commit]; is && broken == test {
			failing = true
		}
		inner := ""
		if failing {
			inner, r.Result = "<failure/>", Failed
		}
		text += fmt.Sprintf(`<testcase name="test_%d">%s</testcase>`, test, inner)
	}
	r.Tests = s.report(text + "</t>")
	return r.Result == Failed
}

// report reads a JUnit file, equal files once.
func (s *madeSite) report(text string) *testreport.Report {
	if s.reports[text] == nil {
		var b testreport.JUnit
		if err := b.Read(strings.NewReader(text)); err != nil {
			panic(err)
		}
		r := b.Report()
		s.reports[text] = &r
	}
	return s.reports[text]
}

package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// of returns GPUs of an architecture with these uses. The n-th one is leased for n minutes.
func of(arch string, uses ...Use) (out []GPU) {
	for i, u := range uses {
		g := GPU{GFX: arch, Use: u}
		if u == Leased {
			g.Lease = &pool.Lease{Held: true, Holder: pool.Holder{Since: new(hosttest.Now.Add(-time.Duration(i+1) * time.Minute))}}
		}
		out = append(out, g)
	}
	return out
}

func TestPageAnswersWhetherAJobCanStart(t *testing.T) {
	const a = "gfx942"
	running := func(g []GPU) Worker { return Worker{Worker: "w", State: "running", Answered: true, GPUs: g} }
	stalled, away := running(of(a, Free, Free)), running(of(a, Free))
	stalled.State, away.Answered = "stalled", false
	for name, c := range map[string]struct {
		workers []Worker
		waiting int
		now     Answer
		reason  string
	}{
		"free":              {[]Worker{running(of(a, Free, Leased))}, 0, Yes, "1 of 2 GPUs is free"},
		"free, with a wait": {[]Worker{running(of(a, Free, Free, Leased))}, 5, Maybe, "2 of 3 GPUs are free, but 5 tasks wait"},
		"shared":            {[]Worker{running(of(a, InUse, InUse))}, 0, Yes, "tasks share 2 of 2 GPUs"},
		"shared, one waits": {[]Worker{running(of(a, InUse))}, 1, Maybe, "tasks share 1 of 1 GPU, but 1 task waits"},
		"in use":            {[]Worker{running(of(a, Leased, Leased))}, 0, No, "all 2 GPUs are in use, the longest for 2m"},
		"in use, two wait":  {[]Worker{running(of(a, Leased, Leased))}, 2, No, "all 2 GPUs are in use, the longest for 2m; 2 tasks wait"},
		"one, in use":       {[]Worker{running(of(a, Leased))}, 0, No, "its only GPU is in use, the longest for 1m"},
		"quarantined":       {[]Worker{running(of(a, Quarantined, Quarantined))}, 0, No, "all 2 GPUs are quarantined"},
		"of each":           {[]Worker{running(of(a, Leased, Quarantined, OnProbation)), stalled}, 0, No, "none of 5 GPUs is free: 1 in use, the longest for 1m, 1 quarantined, 1 on probation, 2 on a worker that does not run"},
		"an away worker":    {[]Worker{running(of(a, Leased)), away}, 0, Maybe, "none of 2 GPUs is free: 1 in use, the longest for 1m, 1 unknown"},
		"unknown":           {[]Worker{running(of(a, Unknown, Unknown))}, 0, Maybe, "all 2 GPUs are unknown"},
		"a free one beside": {[]Worker{stalled, running(of(a, Free))}, 0, Yes, "1 of 3 GPUs is free"},
		"required":          {nil, 0, No, "no worker has one"},
	} {
		r := Report{Time: hosttest.Now, Concourse: Concourse{Time: &hosttest.Now}, Workers: c.workers, Coverage: []Covered{{Arch: a, Required: true}}}
		require.Equal(t, []Start{{a, c.now, c.reason}}, StartsOf(r, map[string]int{a: c.waiting, "gfx90a": 9}), name)
	}

	r := Report{Time: hosttest.Now, Workers: []Worker{running(of("", Free)), stalled, {Answered: true, GPUs: []GPU{{Vendor: "nvidia", Use: Leased}}}}}
	require.Equal(t, []Start{{a, Maybe, "2 of 2 GPUs are free, but Concourse does not answer"},
		{"other GPUs", Maybe, "1 of 1 GPU is free, but Concourse does not answer"}, {"NVIDIA", No, "its only GPU is in use"}}, StartsOf(r, nil))
	r.Concourse.Time = &hosttest.Now
	require.Equal(t, Start{"other GPUs", Maybe, "1 of 1 GPU is free, but the number of waiting tasks is unknown"}, StartsOf(r, nil)[0])
}

// A task that may run on several kinds waits for each. A get needs no GPU.
func TestTasksWaitForTheKindsOfTheirTags(t *testing.T) {
	o := observed{waiting: map[group]int{{Type: "task", Tags: "gpu"}: 2, {Type: "task", Tags: "gfx=gfx942_gpu"}: 3, {Type: "get", Tags: "gpu"}: 9, {Type: "task", Tags: "tpu"}: 1},
		site: jobexporter.Site{Workers: []jobexporter.Worker{{Name: "a", Tags: []string{"gpu", "gfx=gfx942"}}, {Name: "b", Tags: []string{"gpu", "gfx=gfx90a"}}, {Name: "plain"}}}}
	require.Equal(t, map[string]int{"gfx942": 5, "gfx90a": 2},
		o.waitingByKind([]Worker{{Worker: "a", GPUs: of("gfx942", Free, Leased)}, {Worker: "b", GPUs: of("gfx90a", Free)}, {Worker: "plain"}}))
}

// The answer is the first line below the heading, with words beside the colour.
func TestAnswerIsTheFirstLineOfThePage(t *testing.T) {
	first := `<main id="fleet">` + "\n" + `<ul class="jobs">` + "\n"
	r := Report{Workers: []Worker{}, Starts: []Start{{"gfx90a", Yes, "x"}, {"gfx942", No, "y; 1 task waits"}, {"gfx1201", Maybe, "z"}}}
	require.Contains(t, pageOf(t, r), first+`<li><strong class="healthy">✓ A job for gfx90a can start now</strong>: x.</li>
<li><strong class="critical">✕ No job for gfx942 can start now</strong>: y; 1 task waits.</li>
<li><strong class="warning">! A job for gfx1201 may have to wait</strong>: z.</li>`)
	require.Contains(t, pageOf(t, Report{}), first+`<li><strong class="critical">✕ No job for a GPU can start now</strong>: no worker has a GPU.</li>`)
	require.Contains(t, pageOf(t, Report{Problem: "p"}), first+`<li><strong class="warning">! Whether a job can start now is unknown</strong>.</li>`)
}

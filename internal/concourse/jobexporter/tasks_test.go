package jobexporter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A short build may be over, and its container removed, before Prometheus comes by.
func TestRemovedContainerIsShownForAWhile(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	require.Len(t, series(b.scrape(t), "concourse_container_info"), 3)

	b.web.Set(func(s *atctest.Server) { s.Answers[atctest.ContainersOfMain] = "[]" })
	b.now = b.now.Add(taskLinger)
	require.NoError(t, b.poll(t))
	require.Len(t, series(b.scrape(t), "concourse_container_info"), 3)
	b.now = b.now.Add(time.Second)
	require.NoError(t, b.poll(t))
	left := series(b.scrape(t), "concourse_container_info")
	require.Len(t, left, 1)
	require.Contains(t, left[0], `team="dev"`)
	require.Len(t, b.tasks, 1, "what is gone is forgotten")
}

// The page of all workers shows the builds that can wait for a worker.
func TestStartedBuildsAreMarkedIfTheyHaveATask(t *testing.T) {
	b := newBed(t)
	b.o.Site = true
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	var got []string
	for _, s := range b.Site().Started {
		got = append(got, fmt.Sprintf("%s/%s/%s #%s %d %t", s.Team, s.Pipeline, s.Job, s.Name, s.ID, s.Task))
	}
	require.Equal(t, []string{"main/plain/succeeded #4 12 true", "main/plain/started #1 16 false"}, got)
}

// A team's name may have anything in it.
func TestContainersAreAskedForByEachTeamsName(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) {
		s.Answers[atctest.Teams] = `[{"name":"a/b ?c"}]`
		s.Answers[atctest.Teams+"/a/b ?c/containers"] = `[{"id":"h","build_name":"1"}]`
	})
	require.NoError(t, b.poll(t))
	require.Contains(t, b.scrape(t), `concourse_container_info{build="1",container="h",job_name="",pipeline="",step="",team="a/b ?c",worker=""} 1`)
}

func TestContainersAreBounded(t *testing.T) {
	v, seen := newView(nil), tasks{}
	seen.put(v, "t", container{Handle: "gone"}, hosttest.Now.Add(-time.Minute))
	for i := range maxTasks {
		seen.put(v, "t", container{Handle: fmt.Sprint(i), BuildID: i}, hosttest.Now)
	}
	long := strings.Repeat("x", maxName+1)
	for _, c := range []container{{}, {Handle: "0"}, {Handle: "a", Step: long}, {Handle: "b", Pipeline: "p", Vars: map[string]any{"v": long}}} {
		seen.put(v, "t", c, hosttest.Now)
	}
	seen.show(v, hosttest.Now)
	require.Len(t, v.metrics, maxTasks)
	require.Equal(t, 5, v.skipped["container"], "four without a usable name, and the one that is gone already")
}

func TestFailuresInARow(t *testing.T) {
	failed := func(end int64) *build { return &build{Status: "failed", End: end} }
	for name, c := range map[string]struct {
		builds []*build
		want   int
	}{
		"never built":                      {[]*build{nil}, 0},
		"one":                              {[]*build{failed(1)}, 1},
		"the same at each poll":            {[]*build{failed(1), failed(1), failed(1)}, 1},
		"three":                            {[]*build{failed(1), failed(2), failed(3)}, 3},
		"errors count":                     {[]*build{failed(1), {Status: "errored", End: 2}}, 2},
		"a success ends it":                {[]*build{failed(1), failed(2), {Status: "succeeded", End: 3}}, 0},
		"and another begins":               {[]*build{failed(1), {Status: "succeeded", End: 2}, failed(3)}, 1},
		"an aborted one does not":          {[]*build{failed(1), {Status: "aborted", End: 2}, failed(3)}, 2},
		"nor one of a status of its own":   {[]*build{failed(1), {Status: "vanished", End: 2}, failed(3)}, 2},
		"a job that was made again begins": {[]*build{failed(1), nil, failed(3)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var s streak
			for _, b := range c.builds {
				s = s.then(b)
			}
			require.Equal(t, c.want, s.builds)
		})
	}
}

func TestFailuresInARowAreCountedOverPolls(t *testing.T) {
	b := newBed(t)
	one := func(end int) string {
		return fmt.Sprintf(`[{"name":"j","team_name":"main","pipeline_name":"p","finished_build":{"status":"failed","start_time":1,"end_time":%d}}]`, end)
	}
	for end := 1; end <= 3; end++ {
		b.web.Set(func(s *atctest.Server) { s.Answers[atctest.Jobs] = one(end) })
		require.NoError(t, b.poll(t))
	}
	require.Contains(t, b.scrape(t), "\nconcourse_job_consecutive_failures{job=\"j\",pipeline=\"p\",team=\"main\"} 3\n")
	b.web.Set(func(s *atctest.Server) { s.Answers[atctest.Jobs] = "[]" })
	require.NoError(t, b.poll(t))
	require.Empty(t, b.streaks, "a job that is gone is forgotten")
}

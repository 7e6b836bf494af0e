package jobexporter

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/jsonlist"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

func TestD58RemovedJobsLeaveTheMetrics(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	require.Len(t, series(b.scrape(t), "concourse_job_last_build_status"), 10)
	b.web.Set(func(s *atctest.Server) {
		s.Answers[atctest.Jobs] = `[{"id":5,"name":"started","team_name":"main","pipeline_id":1,"pipeline_name":"plain"}]`
		s.Answers[atctest.Pipelines] = `[{"id":1,"name":"plain","team_name":"main"}]`
	})
	require.NoError(t, b.poll(t))
	text := b.scrape(t)
	require.Len(t, series(text, "concourse_job_last_build_status"), 1)
	require.Empty(t, series(text, "concourse_job_last_build_duration_seconds"))
	require.Len(t, series(text, "concourse_pipeline_paused"), 1)
}

func TestD58AllTeamsThatMayBeSeenAreThere(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	text := b.scrape(t)
	require.Contains(t, text, "\nconcourse_teams 2\n")
	require.Contains(t, text, `,team="dev"} `)
	require.Contains(t, text, `,team="main"} `)
}

// A user that has lost its teams sees public pipelines alone, as if all others had been
// removed.
func TestUserWithoutATeamIsAnError(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) { s.Site(); s.Answers[atctest.Teams] = "[]" })
	require.EqualError(t, b.poll(t), "cannot see any team: admin is in none of "+b.web.URL)
}

// The last answer is shown for a time, with up at 0, and then nothing: an old
// state is not passed off as the present one, and no sum falls to 0.
func TestD58LastAnswerIsShownForALimitedTime(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	answered := b.now
	const then = "\nconcourse_exporter_last_success_timestamp_seconds 1.767323045e+09\n"
	b.web.Close()
	for _, c := range []struct {
		after time.Duration
		jobs  int
	}{{time.Minute, 10}, {5 * time.Minute, 10}, {5*time.Minute + time.Second, 0}, {time.Hour, 0}} {
		b.now = answered.Add(c.after)
		require.Error(t, b.poll(t))
		text := b.scrape(t)
		require.Len(t, series(text, "concourse_job_last_build_status"), c.jobs, c.after)
		require.Len(t, series(text, "concourse_pipelines_total"), min(c.jobs, 1))
		require.Contains(t, text, "\nconcourse_exporter_up 0\n")
		require.Contains(t, text, then)
	}
	require.Nil(t, b.answer, "its memory is given back")
}

func TestAnswerIsHiddenInTimeEvenIfNoPollEnds(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	b.web.Set(func(s *atctest.Server) { s.Answers[atctest.Jobs] = "x" })
	require.Error(t, b.poll(t))
	b.now = b.now.Add(6 * time.Minute)
	require.Empty(t, series(b.scrape(t), "concourse_jobs_total"))
}

func TestConcourseIsBackAfterAnOutage(t *testing.T) {
	b := newBed(t)
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	b.web.Set(func(s *atctest.Server) { s.Site(); s.Handle[atctest.Jobs] = down })
	for range 3 {
		require.ErrorContains(t, b.poll(t), "cannot get /api/v1/jobs: the web at "+b.web.URL+" answers 500 Internal Server Error")
	}
	require.EqualError(t, b.Ready(), "Concourse failed at the request, usually without a database; see the exporter's log")
	b.web.Set(func(s *atctest.Server) { delete(s.Handle, atctest.Jobs) })
	require.NoError(t, b.poll(t))
	require.NoError(t, b.poll(t))
	require.NoError(t, b.Ready())
	require.Contains(t, b.scrape(t), "\nconcourse_exporter_up 1\n")
	require.Equal(t, 2, strings.Count(b.logs.String(), "\n"), "one line when it goes, one when it comes: %s", b.logs.String())
}

func TestFailuresByKind(t *testing.T) {
	answers := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); w.Write([]byte(body)) }
	}
	for name, c := range map[string]struct {
		path string
		h    http.HandlerFunc
		kind result
		text string
	}{
		"forbidden":             {atctest.Jobs, answers(403, "forbidden"), webclient.Refused, "403 Forbidden"},
		"an error":              {atctest.Pipelines, answers(500, ""), webclient.Failing, "500 Internal Server Error"},
		"another server":        {atctest.Teams, answers(404, "<html>"), webclient.Refused, "404 Not Found"},
		"HTML":                  {atctest.Jobs, answers(200, "<html>"), webclient.Answer, jsonlist.ErrForm.Error()},
		"an object":             {atctest.Jobs, answers(200, `{"a":1}`), webclient.Answer, jsonlist.ErrForm.Error()},
		"wrong types":           {atctest.Jobs, answers(200, `[{"name":5}]`), webclient.Answer, jsonlist.ErrForm.Error()},
		"cut off":               {atctest.Jobs, answers(200, `[{"name":"a"},`), webclient.Answer, jsonlist.ErrForm.Error()},
		"two answers":           {atctest.Jobs, answers(200, `[] []`), webclient.Answer, "data follows the first JSON value"},
		"too many":              {atctest.Jobs, answers(200, "["+strings.Repeat("{},", webclient.MaxItems)+"{}]"), webclient.Answer, "more than 100000 elements"},
		"login of another kind": {atctest.Token, answers(200, "{}"), webclient.Answer, "it has no token"},
		"login unavailable":     {atctest.Token, answers(503, ""), webclient.Failing, "503 Service Unavailable"},
		"connection that breaks": {atctest.Jobs, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte(`[{"name":"a"}`))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, webclient.Unreachable, "does not answer: its connection broke"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.web.Set(func(s *atctest.Server) { s.Site(); s.Handle[c.path] = c.h })
			err := b.poll(t)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.kind, kind(err))
			require.Contains(t, b.scrape(t), fmt.Sprintf("concourse_exporter_polls_total{result=%q} 1\n", c.kind))
		})
	}
}

// A compressed megabyte can be a units.GB of answer.
func TestAnswerWithoutEndIsCutOff(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) {
		s.Handle[atctest.Jobs] = func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`[{"groups":["`))
			for text := []byte(strings.Repeat("x", 1<<20)); r.Context().Err() == nil; {
				if _, err := w.Write(text); err != nil {
					return
				}
			}
		}
	})
	require.ErrorContains(t, b.poll(t), "cannot get /api/v1/jobs: the web at "+b.web.URL+" does not answer as Concourse does: it has more than 67108864 bytes")
}

func TestSlowAnswerEndsWithThePoll(t *testing.T) {
	b := newBed(t)
	reached := make(chan struct{})
	b.web.Set(func(s *atctest.Server) {
		s.Handle[atctest.Jobs] = func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("["))
			w.(http.Flusher).Flush()
			close(reached)
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-reached; cancel() }()
	require.Error(t, b.Poll(ctx))
	require.Empty(t, b.logs.String(), "the end of the program is no outage")

	b.o.Timeout = time.Nanosecond
	err := b.poll(t)
	require.ErrorContains(t, err, "does not answer in time")
	require.Equal(t, webclient.Unreachable, kind(err))
}

func TestFollowPollsAtOnceAtTicksAndAfterASignal(t *testing.T) {
	b := newBed(t)
	lists := make(chan struct{})
	b.web.Set(func(s *atctest.Server) {
		s.Handle[atctest.Jobs] = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("null")); lists <- struct{}{} }
	})
	ctx, cancel := context.WithCancel(context.Background())
	tick, again, done := make(chan time.Time), make(chan os.Signal), make(chan struct{})
	go func() { defer close(done); b.follow(ctx, tick, again) }()
	<-lists
	tick <- time.Time{}
	<-lists
	require.Equal(t, 1, logins(b))
	again <- os.Interrupt
	<-lists
	require.Equal(t, 2, logins(b))
	cancel()
	<-done
	require.NoError(t, b.Ready(), "null is an empty list")
}

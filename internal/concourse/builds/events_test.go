package builds

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

// The events of a build may be longer than any bound. They are not asked for again.
func TestEndlessEventsAreReadOnce(t *testing.T) {
	b := newBed(t, 600)
	one := made(1, "failed", "abc")
	line := `{"data":{"origin":{"id":"c","source":"stdout"},"payload":"` + strings.Repeat("x", 1<<20) + `"},"event":"log","version":"5.1"}`
	for range 64 {
		one.Events = append(one.Events, line)
	}
	b.has(one)
	b.minute(t)
	require.Empty(t, b.Runs())
	require.Zero(t, b.Progress().Unread)
}

func TestResultsOfTasksWithoutAnExitStatus(t *testing.T) {
	for message, want := range map[string]struct {
		result flake.Result
		cause  flake.Cause
	}{"timeout exceeded": {flake.Failed, ""}, "interrupted": {flake.Aborted, ""}, "exec: no such file": {flake.Errored, ""},
		"volume x disappeared from worker gpu-0": {flake.Errored, flake.ByConcourse}} {
		b := newBed(t, 60)
		one := made(1, "failed", "abc")
		one.Events[len(one.Events)-1] = fmt.Sprintf(`{"data":{"time":9,"message":%q,"origin":{"id":"c"}},"event":"error","version":"4.1"}`, message)
		b.has(one)
		b.minute(t)
		require.Equal(t, want.result, b.Runs()[0].Result, message)
		require.Equal(t, want.cause, b.Runs()[0].Cause, message)
	}
}

// Each value of across is another task, and each image another configuration.
func TestStepsOfAcrossAndImagesAreSeparate(t *testing.T) {
	b := newBed(t, 60)
	one := made(1, "failed", "abc")
	one.Plan = `{"schema":"exec.v2","plan":{"id":"a","across":{"vars":[{"name":"gfx"}]}}}`
	one.Events = []string{`{"data":{"time":1,"origin":{"id":"a"},"substeps":[{"step":{"id":"a/0","task":{"name":"unit","privileged":false}},"values":["gfx90a"]},
{"step":{"id":"a/1","retry":[{"id":"a/2","task":{"name":"unit","privileged":false}}]},"values":["gfx942",{"n":1}]}]},"event":"across-substeps","version":"1.0"}`}
	one.Events[0] = strings.ReplaceAll(one.Events[0], "\n", "")
	for _, id := range []string{"a/0", "a/2"} {
		one.Events = append(one.Events, `{"data":{"time":1,"origin":{"id":"`+id+`"},"config":{}},"event":"start-task","version":"5.0"}`,
			`{"data":{"time":1,"origin":{"id":"`+id+`"},"plan":{"id":"`+id+`/image-get","get":{"name":"image"}}},"event":"image-get","version":"1.1"}`,
			`{"data":{"time":1,"origin":{"id":"`+id+`/image-get"},"exit_status":0,"version":{"digest":"`+id+`"}},"event":"finish-get","version":"5.1"}`,
			`{"data":{"time":9,"exit_status":0,"origin":{"id":"`+id+`"}},"event":"finish-task","version":"4.0"}`)
	}
	b.has(one)
	b.minute(t)
	require.Equal(t, []string{"unit (gfx90a)", `unit (gfx942, {"n":1})`}, []string{b.Runs()[0].Step, b.Runs()[1].Step})
	require.NotEqual(t, b.Runs()[0].Inputs, b.Runs()[1].Inputs)
}

// A rerun has the inputs of its build, which no other build without inputs has.
func TestBuildsWithoutInputsEqualOnlyTheirReruns(t *testing.T) {
	b := newBed(t, 60)
	var all []atctest.Build
	for id := range 3 {
		one := made(id+1, "failed", "")
		one.Resources = `{"inputs":[],"outputs":[]}`
		all = append(all, one)
	}
	all[2].RerunOf = map[string]any{"id": 1, "name": "1"}
	b.has(all...)
	b.minute(t)
	r := b.Runs()
	require.Equal(t, r[0].Inputs, r[2].Inputs)
	require.NotEqual(t, r[0].Inputs, r[1].Inputs)
}

// The answers are from Concourse 8.2.5 for a job with a flaky test on each value of across,
// and for a job that fails by itself.
func TestRecordedBuildsAreRead(t *testing.T) {
	c := New(Options{PerMinute: 60, Logs: log.New(io.Discard, "", 0), Now: func() time.Time { return time.Unix(1795640500, 0) },
		Reference: func(name string, _ map[string]any) string { return name },
		Get: func(_ context.Context, path string) (io.ReadCloser, error) {
			file := "builds.json"
			if id, what, is := strings.Cut(strings.TrimPrefix(path, "/api/v1/builds/"), "/"); is && id != "" && !strings.Contains(path, "?") {
				if file = id + "-" + what; what != "events" {
					file += ".json"
				}
			}
			return os.Open("testdata/8.2.5/" + file)
		}})
	changed, err := c.Round(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	all := c.Runs()
	require.Len(t, all, 10)
	r := flake.Find(all)
	require.Len(t, r.Flakes, 2)
	for i, step := range []string{"unit (one)", "unit (two)"} {
		require.Equal(t, flake.Key{Team: "main", Pipeline: "flaky", Job: "flaky", Step: step, Test: "t.slow"}, r.Flakes[i].Key)
		require.Equal(t, []int{2, 4}, []int{r.Flakes[i].Failures, r.Flakes[i].Runs})
	}
	require.Empty(t, r.Lost)
	require.NotEqual(t, all[0].Inputs, all[1].Inputs, "the values of across are in the program")
	require.Equal(t, "concourse-ci-machine-1-f0ac39da", all[0].Worker)
}

func FuzzEvents(f *testing.F) {
	f.Add("event: event\ndata: " + strings.Join(made(1, "failed", "a").Events, "\n\nevent: event\ndata: ") + "\n\nevent: end\ndata\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := newEventLog(steps{"c": "unit"})
		if readEvents(strings.NewReader(text), l.add) != nil {
			return
		}
		for _, r := range l.runs(&build{}, "x") {
			require.Equal(t, "unit", r.Step)
			require.NotEmpty(t, r.Result)
		}
	})
}

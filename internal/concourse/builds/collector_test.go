package builds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// bed is a collector with its own Concourse, and a clock that the test moves.
type bed struct {
	*Collector
	web   *atctest.Server
	now   time.Time
	asked []string
	logs  hosttest.Buffer
}

func newBed(t *testing.T, perMinute int) *bed {
	t.Helper()
	b := &bed{web: atctest.New(t), now: hosttest.Now}
	b.Collector = New(Options{PerMinute: perMinute, Logs: log.New(&b.logs, "", 0), Now: func() time.Time { return b.now }, Get: b.get,
		Reference: func(name string, _ map[string]any) string { return name }})
	return b
}

// get requests a path with a token of the web, as the job exporter's client does.
func (b *bed) get(ctx context.Context, path string) (io.ReadCloser, error) {
	b.asked = append(b.asked, path)
	login := httptest.NewRecorder()
	r := httptest.NewRequest("POST", atctest.Token, strings.NewReader("grant_type=password&scope=openid&username=admin&password=s3+cr%26t"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("fly", "Zmx5")
	b.web.ServeHTTP(login, r)
	_, token, _ := strings.Cut(login.Body.String(), `"access_token":"`)
	token, _, _ = strings.Cut(token, `"`)
	req, err := http.NewRequestWithContext(ctx, "GET", b.web.URL+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode != 200 {
		resp.Body.Close()
		return nil, errors.New(resp.Status)
	}
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// made returns a finished build with one task.
func made(id int, status, commit string) atctest.Build {
	exit := 0
	if status == "failed" {
		exit = 1
	}
	at := hosttest.Now.Unix() - 3600 + int64(id)
	return atctest.Build{ID: id, Name: fmt.Sprint(id), Status: status, Team: "main", Pipeline: "rocm", Job: "unit", Start: at - 60, End: at,
		Resources: fmt.Sprintf(`{"inputs":[{"name":"source","version":{"ref":%q},"pipeline_id":1,"first_occurrence":true},
{"name":"nightly","version":{"time":"2026-11-25T00:%02d:00Z"},"pipeline_id":1,"first_occurrence":true}],"outputs":[]}`, commit, id),
		Plan: `{"schema":"exec.v2","plan":{"id":"a","do":[{"id":"b","get":{"name":"source","type":"git"}},{"id":"c","task":{"name":"unit","privileged":false}}]}}`,
		Events: []string{`{"data":{"status":"started","time":1},"event":"status","version":"1.0"}`,
			`{"data":{"time":1,"origin":{"id":"c"},"config":{"platform":"linux","image":"","run":{"path":"sh","args":["-c","x"],"dir":""},"inputs":null}},"event":"start-task","version":"5.0"}`,
			`{"data":{"time":1,"origin":{"id":"c"},"selected_worker":"gpu-0"},"event":"selected-worker","version":"1.0"}`,
			`{"data":{"time":2,"origin":{"id":"c","source":"stdout"},"payload":"secret\njunit-results/1 {\"tests\":1,\"fai"},"event":"log","version":"5.1"}`,
			`{"data":{"time":2,"origin":{"id":"c","source":"stderr"},"payload":"between\n"},"event":"log","version":"5.1"}`,
			`{"data":{"time":2,"origin":{"id":"c","source":"stdout"},"payload":"led\":[\"t.slow\"],\"passed\":\"\"}\r\nmore"},"event":"log","version":"5.1"}`,
			fmt.Sprintf(`{"data":{"time":%d,"exit_status":%d,"origin":{"id":"c"}},"event":"finish-task","version":"4.0"}`, at, exit)}}
}

func (b *bed) has(builds ...atctest.Build) {
	b.web.Set(func(s *atctest.Server) { s.AllBuilds = builds })
}

// minute moves the clock and runs a round.
func (b *bed) minute(t *testing.T) bool {
	t.Helper()
	b.now, b.asked = b.now.Add(time.Minute), nil
	changed, err := b.Round(t.Context())
	require.NoError(t, err)
	return changed
}

func TestTasksOfFinishedBuildsAreReadOnce(t *testing.T) {
	b := newBed(t, 60)
	b.has(made(1, "succeeded", "abc"), made(2, "failed", "abc"), made(3, "started", "def"))
	require.True(t, b.minute(t))
	all := b.Runs()
	require.Len(t, all, 2)
	one := all[1]
	require.Equal(t, flake.Key{Team: "main", Pipeline: "rocm", Job: "unit", Step: "unit"}, one.Key)
	require.Equal(t, flake.Failed, one.Result)
	require.Equal(t, "gpu-0", one.Worker)
	require.Equal(t, []string{"t.slow"}, one.Tests.Failed)
	require.Equal(t, all[0].Inputs, one.Inputs, "only the time differs")
	require.NotEmpty(t, one.Inputs)
	require.False(t, b.minute(t))
	require.Equal(t, []string{"/api/v1/builds?limit=100"}, b.asked, "nothing is new")
	require.Equal(t, Progress{3, 0}, b.Progress())
	require.NotContains(t, fmt.Sprintf("%+v", b.builds[2]), "secret")

	b.has(made(1, "succeeded", "abc"), made(2, "failed", "abc"), made(3, "succeeded", "def"))
	require.True(t, b.minute(t))
	require.NotEqual(t, all[0].Inputs, b.Runs()[2].Inputs)
}

// A build without a job, such as one of fly execute, is never run again. Names are bounded, and
// an old build shows nothing about today.
func TestBuildsThatCannotBeComparedAreLeftOut(t *testing.T) {
	now := hosttest.Now.Unix()
	month := int64(maxAge / time.Second)
	good := answer{ID: 7, Team: "main", Pipeline: "p", Job: "j", Name: "1"}
	for name, c := range map[string]struct {
		change func(*answer)
		kept   bool
	}{
		"running":            {func(*answer) {}, true},
		"a month old":        {func(a *answer) { a.End = now - month }, true},
		"older":              {func(a *answer) { a.End = now - month - 1 }, false},
		"without a job":      {func(a *answer) { a.Job = "" }, false},
		"without a number":   {func(a *answer) { a.ID = 0 }, false},
		"long names":         {func(a *answer) { a.Team, a.Job, a.Name = long(maxName), long(maxName), long(maxName) }, true},
		"too long a team":    {func(a *answer) { a.Team = long(maxName + 1) }, false},
		"too long a job":     {func(a *answer) { a.Job = long(maxName + 1) }, false},
		"too long a name":    {func(a *answer) { a.Name = long(maxName + 1) }, false},
		"too long variables": {func(a *answer) { a.Pipeline = "without a reference" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 60)
			b.o.Reference = func(name string, _ map[string]any) string { return map[string]string{"p": "p/x:1"}[name] }
			a := good
			c.change(&a)
			b.add([]answer{a})
			require.Equal(t, c.kept, len(b.builds) == 1)
			if c.kept {
				require.Equal(t, flake.Key{Team: a.Team, Pipeline: "p/x:1", Job: a.Job}, b.builds[7].key)
			}
		})
	}
	oldest, newest := newBed(t, 60).add([]answer{{ID: 9}, {ID: -1}, {ID: 4}, {ID: 6}})
	require.Equal(t, []int{4, 9}, []int{oldest, newest})
}

func long(n int) string { return strings.Repeat("x", n) }

// A job that never fails has no flakes.
func TestJobsThatNeverFailAreNotRead(t *testing.T) {
	b := newBed(t, 60)
	b.has(made(1, "succeeded", "abc"), made(2, "aborted", "abc"))
	require.False(t, b.minute(t))
	require.Len(t, b.asked, 1)
}

func TestRequestsOfAMinuteAreBounded(t *testing.T) {
	b := newBed(t, 10)
	var all []atctest.Build
	for id := range 20 {
		all = append(all, made(id+1, "failed", "abc"))
	}
	b.has(all...)
	for minute, want := range []int{3, 6, 9} {
		b.minute(t)
		require.LessOrEqual(t, len(b.asked), 10)
		require.Len(t, b.Runs(), want, "minute %d", minute)
	}
	require.Equal(t, 20, b.Runs()[len(b.Runs())-1].Build, "the newest come first")
	b.now = b.now.Add(24 * time.Hour)
	b.minute(t)
	require.LessOrEqual(t, len(b.asked), 10, "a pause saves no requests up")
}

// Builds that ended while the exporter was away are read, and so are those before its start.
func TestBuildsOfAGapAreRead(t *testing.T) {
	b := newBed(t, 6000)
	var all []atctest.Build
	for id := range 250 {
		all = append(all, made(id+1, "failed", "abc"))
	}
	b.has(all...)
	b.minute(t)
	b.minute(t)
	require.Len(t, b.Runs(), 250)
	for id := range 300 {
		all = append(all, made(251+id, "failed", "abc"))
	}
	b.has(all...)
	b.minute(t)
	b.minute(t)
	require.Len(t, b.Runs(), 550)
}

// A build that runs for long leaves the list of the newest builds.
func TestLongBuildsAreReadWhenTheyEnd(t *testing.T) {
	b := newBed(t, 6000)
	b.has(made(1, "started", "abc"))
	b.minute(t)
	all := []atctest.Build{made(1, "started", "abc")}
	for id := range 150 {
		all = append(all, made(id+2, "succeeded", "abc"))
	}
	b.has(all...)
	b.minute(t)
	require.Empty(t, b.Runs())
	all[0] = made(1, "failed", "abc")
	b.has(all...)
	b.minute(t)
	require.Len(t, b.Runs(), 151)
	require.Equal(t, flake.Failed, b.Runs()[0].Result)
}

// pendingForEver returns builds that never start, one that runs, and newer ones that were
// aborted.
func pendingForEver() (all []atctest.Build) {
	for id := range 12 {
		all = append(all, made(id+1, "pending", "abc"))
	}
	all = append(all, made(13, "started", "abc"))
	for id := range 200 { // two pages of the list
		all = append(all, made(14+id, "aborted", "abc"))
	}
	return all
}

func TestBuildsThatStayPendingDelayNoOthers(t *testing.T) {
	b := newBed(t, 60)
	all := pendingForEver()
	b.has(all[:13]...)
	b.minute(t)
	all[12] = made(13, "failed", "abc")
	b.has(all...)
	asked := map[string]int{}
	for range 6 {
		b.minute(t)
		single := 0
		for _, path := range b.asked {
			if asked[path]++; strings.Count(path, "/") == 4 && !strings.Contains(path, "?") {
				single++
			}
		}
		require.LessOrEqual(t, single, 10, "a sixth of the requests")
	}
	require.Len(t, b.Runs(), 1)
	for id := range 12 {
		require.InDelta(t, 5, asked[fmt.Sprintf("/api/v1/builds/%d", id+1)], 1, "in turn")
	}
}

// Few requests are enough for the list, running builds and tasks, however often rounds are.
func TestFewRequestsReadBuildsToo(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute} {
		b := newBed(t, 5)
		all := pendingForEver()
		b.has(all...)
		for range 20 * max(1, int(time.Minute/every)) {
			b.now = b.now.Add(every)
			_, err := b.Round(t.Context())
			require.NoError(t, err)
		}
		b.has(append(all, made(300, "failed", "abc"))...)
		b.asked = nil
		for range 10 * max(1, int(time.Minute/every)) {
			b.now = b.now.Add(every)
			_, err := b.Round(t.Context())
			require.NoError(t, err)
		}
		require.Len(t, b.Runs(), 1, every)
		require.LessOrEqual(t, len(b.asked), 5*11, every)
	}
}

// A build of a removed pipeline is not a reason to read no others.
func TestRunningBuildThatCannotBeReadDelaysNoOthers(t *testing.T) {
	b := newBed(t, 60)
	all := pendingForEver()
	b.has(all...)
	b.minute(t)
	b.minute(t) // the older ones come from the gap
	b.has(append(all[1:], made(300, "failed", "abc"))...)
	b.minute(t)
	require.Len(t, b.Runs(), 1)
	for range 6 {
		b.minute(t)
	}
	require.NotContains(t, b.builds, 1)
	require.Contains(t, b.builds, 2)
}

// One build may have no plan. Several without an answer are an outage.
func TestBuildThatCannotBeReadIsLeftOut(t *testing.T) {
	b := newBed(t, 600)
	var all []atctest.Build
	for id := range 5 {
		bad := made(id+2, "failed", "abc")
		bad.Plan = ""
		all = append(all, bad)
	}
	b.has(made(1, "failed", "abc"), all[0])
	b.minute(t)
	require.Len(t, b.Runs(), 1)
	for range maxTries {
		b.minute(t)
	}
	require.Zero(t, b.Progress().Unread)
	b.has(all...)
	for range 2 {
		b.now = b.now.Add(time.Minute)
		_, err := b.Round(t.Context())
		require.ErrorContains(t, err, "404")
	}
	require.Equal(t, 1, strings.Count(b.logs.String(), "cannot read builds: "), "an outage is one line")
}

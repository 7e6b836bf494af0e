package watcher

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	handle     = "eb2a4fe8-e932-49c4-b519-4f1da1901416"
	webMetrics = `# TYPE concourse_container_info gauge
concourse_container_info{build="12",container="00000000-0000-4000-8000-000000000000",step="container=\"` + handle + `\"",team="other"} 1
concourse_container_info{build="12",container="` + handle + `",job_name="unit",pipeline="app",step="run",team="red",worker="w"} 1
`
)

func TestTeamOfAContainerIsReadFromTheWebsMetrics(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"its line":        {webMetrics, "red"},
		"no line":         {strings.ReplaceAll(webMetrics, handle, "4f1c"), ""},
		"no metrics":      {"<html>", ""},
		"not in the form": {containerMetric + `{container="` + handle + `",team="re`, ""},
	} {
		team := teamOf(strings.NewReader(c.text), handle)
		require.Equal(t, c.want, team, name)
	}
}

func TestTeamIsReadFromTheWebThatHasIt(t *testing.T) {
	without, with := hosttest.NewServer(t, 200, "up 1\n"), hosttest.NewServer(t, 200, webMetrics)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	for name, first := range map[string]string{"no container": without, "no exporter": hosttest.NewServer(t, 404, ""),
		"no answer": silent.URL, "no web": "http://127.0.0.1:1"} {
		team, err := (&Unit{WebMetricsURLs: []string{first, with}}).requestTeam(t.Context(), handle)
		require.NoError(t, err, name)
		require.Equal(t, "red", team, name)
	}
	team, err := (&Unit{WebMetricsURLs: []string{without}}).requestTeam(t.Context(), handle)
	require.NoError(t, err)
	require.Empty(t, team)
}

// A crash that the kernel reports nothing about is recorded with its program and the digest
// of its team, and without any name.
func TestCrashIsRecordedWithProgramAndTeam(t *testing.T) {
	u := leaseUnit(t, leasing())
	watchedBy(t, u)
	workerOf(t, u, map[string]string{handle: `{"value":"139"}`})
	u.WebMetricsURLs = []string{hosttest.NewServer(t, 200, webMetrics)}
	watched(t, u)
	runs(t, u.Host.Root, "4711")
	taken(t, u, handle, 4711, 5*time.Second, lease.Want{Count: 1, Of: []int{2}})
	l, err := u.readLeases()
	require.NoError(t, err)
	look := func() { u.after(15 * time.Second); watched(t, u) }
	look()
	require.NoError(t, setProgram(u, "4f1c"))
	require.NoError(t, os.RemoveAll(u.Host.Path("/proc/4711")))
	for range 4 {
		look()
	}
	team, err := l.Digest("team", "red")
	require.NoError(t, err)
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	require.NoError(t, err)
	ends := r.Find(l.GPUs[2]).Programs
	require.Len(t, ends, 1)
	require.Equal(t, []string{team}, ends[0].Teams)
	require.Equal(t, "x", ends[0].Ends)
	require.Equal(t, "4f1c", ends[0].Program)
}

// setProgram sets the program of the task that runs, which an exec does otherwise.
func setProgram(u *Unit, program string) error {
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	if err != nil {
		return err
	}
	r.Runs[0].Program = program
	return quarantine.RecordFile.Write(u.Host.Root, r)
}

func FuzzTeamOf(f *testing.F) {
	f.Add("red", "run")
	f.Add("a\"b\\", "x\n")
	f.Fuzz(func(t *testing.T, team, step string) {
		if !utf8.ValidString(team) || !utf8.ValidString(step) {
			return // a label is UTF-8
		}
		label := strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\"", "\\\"") // as the format demands
		line := containerMetric + `{step="` + label.Replace(step) + `",container="` + handle + `",team="` + label.Replace(team) + "\"} 1\n"
		require.NotPanics(t, func() { teamOf(strings.NewReader(team+step), handle) })
		if got := teamOf(strings.NewReader(line), handle); !strings.ContainsAny(team+step, "\r\t") && isPrintable(team+step) {
			require.Equal(t, team, got)
		}
	})
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' })
}

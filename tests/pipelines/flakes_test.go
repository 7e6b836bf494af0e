package pipelines

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const container = "00000000-0000-0000-0000-000000000001"

// judge is a step that asks an exporter with this answer.
func judge(t *testing.T, code int, answer string) *step {
	t.Helper()
	s := newStep(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/api/v1/flakes/build-of/"+container, r.URL.Path)
		w.WriteHeader(code)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(web.Close)
	s.vars["flakes-url"] = web.URL + "/"
	s.env = []string{"PATIENCE=0", "CONTAINER=" + container}
	return s
}

func TestPullRequestThatInfrastructureFailedIsReported(t *testing.T) {
	const answer = `{"infrastructure":true,"sentence":"failed by infrastructure, run again (gpu: GPU 3 hung) @team <b>\n"}`
	const want = "**failed by infrastructure, run again (gpu: GPU 3 hung) ?team ?b??**\n\n"
	s := judge(t, 200, answer)
	s.passes(t, "failed-by-infrastructure")
	comment, err := os.ReadFile(s.path("again/comment.md"))
	require.NoError(t, err)
	require.Equal(t, want, string(comment))

	require.NoError(t, os.Mkdir(s.path("report"), 0o755))
	require.NoError(t, os.WriteFile(s.path("report/comment.md"), []byte("| the table |\n"), 0o644))
	s.passes(t, "failed-by-infrastructure")
	comment, err = os.ReadFile(s.path("again/comment.md"))
	require.NoError(t, err)
	require.Equal(t, want+"| the table |\n", string(comment))

	require.NoError(t, os.Remove(s.path("report/comment.md")))
	require.NoError(t, os.Symlink("/etc/hostname", s.path("report/comment.md")))
	s.passes(t, "failed-by-infrastructure")
	comment, err = os.ReadFile(s.path("again/comment.md"))
	require.NoError(t, err)
	require.Equal(t, want, string(comment), "a link of a build leads nowhere")
}

// Without a sign of infrastructure nothing is commented.
func TestOtherFailuresAreNoInfrastructure(t *testing.T) {
	for answer, code := range map[string]int{`{"infrastructure":false,"sentence":""}`: 200, `{"infrastructure":"true"}`: 200, `[]`: 200, "not yet": 404} {
		judge(t, code, answer).fails(t, "failed-by-infrastructure", "there is no sign that infrastructure failed the build")
	}
	judge(t, 500, "").fails(t, "failed-by-infrastructure", "500")
	judge(t, 200, "<html>").fails(t, "failed-by-infrastructure", "Expecting value")
	s := judge(t, 200, "{}")
	s.vars["flakes-url"] = ""
	s.fails(t, "failed-by-infrastructure", "FLAKES_URL is empty")
	s.vars["flakes-url"] = "file:///etc/passwd"
	s.fails(t, "failed-by-infrastructure", "want one like http://")
}

// The results are printed if the tests fail too, and missing results decide nothing.
func TestUnitPrintsTheResultsOfItsTests(t *testing.T) {
	s := newStep(t)
	s.checkout(t, "source")
	program := filepath.Join(s.dir, "gpu-baseline")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"junit-results $*: $(cat $2)\"\n"), 0o755))
	s.vars["gpu-baseline"], s.vars["gfx"], s.vars["architectures"] = program, "gfx90a", "gfx90a"
	s.vars["junit"], s.vars["unit-command"] = "junit.xml", "echo results > junit.xml; exit 3"
	out, code := s.run(t, "unit")
	require.Equal(t, 1, code)
	require.Contains(t, out, "junit-results junit junit.xml: results\nFAILED: UNIT_COMMAND exits with 3\n")
	s.vars["unit-command"], s.vars["gpu-baseline"] = "true", "/none"
	require.Contains(t, s.passes(t, "unit"), "The page of flaky tests gets no results of this task: ")
}

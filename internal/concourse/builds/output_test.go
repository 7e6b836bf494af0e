package builds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

const printed = "0badcafe-0000-4000-8000-000000000001"

// prints returns a build whose task prints texts, each in its own event, and fails.
func prints(texts ...string) atctest.Build {
	b := made(7, "failed", "abc")
	last := len(b.Events) - 1
	end := b.Events[last]
	b.Events = b.Events[:last]
	for _, text := range append([]string{"\n"}, texts...) { // after a line without its end
		payload, _ := json.Marshal(text)
		b.Events = append(b.Events, fmt.Sprintf(
			`{"data":{"time":2,"origin":{"id":"c","source":"stdout"},"payload":%s},"event":"log","version":"5.1"}`, payload))
	}
	b.Events = append(b.Events, end)
	return b
}

func TestLastErrorsOfATaskAreFound(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		texts []string
		want  []string
	}{
		"no error": {[]string{"built\n", "5 passed, 0 failed, no errors\n", "gcc -Werror x.c\n"}, nil},
		"Python": {[]string{"Traceback (most recent call last):\n  x\nRuntimeError: no GPU\n"},
			[]string{"Traceback (most recent call last):", "RuntimeError: no GPU"}},
		"in pieces":      {[]string{"a\nmake: *** [x] Er", "ror 2\nb"}, []string{"make: *** [x] Error 2"}},
		"without an end": {[]string{"a\n", "sh: x: Permission denied"}, []string{"sh: x: Permission denied"}},
		"colours":        {[]string{"\x1b[31mFAILED\x1b[0m tests/a.py\x1b]0;x\n"}, []string{"FAILED tests/a.py?]0;x"}},
		"progress":       {[]string{"10 %\r20 %\rfatal: x\r\n"}, []string{"fatal: x"}},
		"the last of many": {[]string{"error 1\nerror 2\nerror 3\nok\nerror 4\nerror 5\nerror 6\n"},
			[]string{"error 2", "error 3", "error 4", "error 5", "error 6"}},
		"long": {[]string{"panic: " + long + "\n"}, []string{("panic: " + long)[:200] + "..."}},
	} {
		b := newBed(t, 60)
		b.has(prints(c.texts...))
		b.web.Set(func(s *atctest.Server) {
			s.Answers[atctest.ContainersOfMain] = `[{"id":"other","build_id":1},{"id":"` + printed +
				`","worker_name":"gpu-0","build_id":7,"step_name":"unit"}]`
		})
		got, err := ErrorsOf(t.Context(), b.get, printed)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestErrorsAreOnlyOfTheOneFailedTask(t *testing.T) {
	passes := prints("error: x\n")
	passes.Events[len(passes.Events)-1] = `{"data":{"time":3,"exit_status":0,"origin":{"id":"c"}},"event":"finish-task"}`
	twice := prints("error: x\n")
	twice.Plan = strings.Replace(twice.Plan, `{"id":"c"`, `{"id":"d","task":{"name":"unit"}},{"id":"c"`, 1)
	for _, e := range twice.Events {
		twice.Events = append(twice.Events, strings.ReplaceAll(e, `"id":"c"`, `"id":"d"`))
	}
	elsewhere := prints("error: x\n")
	for i, e := range elsewhere.Events {
		elsewhere.Events[i] = strings.ReplaceAll(e, "gpu-0", "gpu-1")
	}
	builds := map[string]atctest.Build{"it passed": passes, "two of its name": twice, "of another worker": elsewhere}
	for name, build := range builds {
		b := newBed(t, 60)
		b.has(build)
		b.web.Set(func(s *atctest.Server) {
			s.Answers[atctest.ContainersOfMain] = `[{"id":"` + printed +
				`","worker_name":"gpu-0","build_id":7,"step_name":"unit"}]`
		})
		got, err := ErrorsOf(t.Context(), b.get, printed)
		require.Error(t, err, name)
		require.Empty(t, got, name)
	}
	_, err := ErrorsOf(t.Context(), newBed(t, 60).get, printed)
	require.EqualError(t, err, "cannot find container "+printed+" in Concourse")
}

// A task prints as it likes.
func FuzzErrors(f *testing.F) {
	f.Add("error\r\n\x1b[31m", "FAILED \xff\nTraceback")
	f.Fuzz(func(t *testing.T, first, second string) {
		one := tail{parts: map[string]string{}}
		one.write("stdout", first)
		one.write("stdout", second)
		lines := one.end()
		require.LessOrEqual(t, len(lines), maxErrorLines)
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxErrorLine+len("..."))
			require.NotContains(t, line, "\x1b")
		}
	})
}

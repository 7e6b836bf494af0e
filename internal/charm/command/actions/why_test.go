package actions

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A GPU in the cold has a negative temperature, and a mark may be outside of the charts.
func TestTimelineHasABarForEachReading(t *testing.T) {
	low, high := -4., 40.
	var b strings.Builder
	writeTimeline(&b, taskrecord.Timeline{Charts: []taskrecord.Chart{{Name: "temperature", Unit: "°C", Values: []*float64{&low, nil, &high}, Most: 40},
		{Name: "none", Values: []*float64{&low, &low}}}, Marks: []taskrecord.Mark{{At: -1}, {At: 10 * timelineWidth}}})
	require.Contains(t, b.String(), "temperature        ▁ █ max 40 °C\n")
	require.Contains(t, b.String(), "none               ▁▁ max 0 \n")
}

func TestUnitWithoutAFailedTaskIsNoError(t *testing.T) {
	a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Root(t))}}
	var text strings.Builder
	require.NoError(t, a.Why(t.Context(), &text, "", term.Format{}))
	require.Equal(t, taskrecord.ErrNoneFailed.Error()+"\n", text.String())
}

// A machine with the web has a login with which it reads what its tasks printed.
func TestErrorsThatATaskPrintedAreShown(t *testing.T) {
	const handle = "0badcafe-0000-4000-8000-000000000001"
	web := atctest.New(t)
	web.Answers[atctest.ContainersOfMain] = `[{"id":"` + handle +
		`","worker_name":"w","build_id":7,"step_name":"unit"}]`
	web.AllBuilds = []atctest.Build{{ID: 7, Plan: `{"plan":{"id":"c","task":{"name":"unit"}}}`, Events: []string{
		`{"data":{"origin":{"id":"c"},"selected_worker":"w"},"event":"selected-worker"}`,
		`{"data":{"origin":{"id":"c","source":"stderr"},"payload":"ok\n\u001b[31mFAILED\u001b[0m a.py\n"},"event":"log"}`,
		`{"data":{"time":3,"exit_status":1,"origin":{"id":"c"}},"event":"finish-task"}`}}}
	credentials, err := login.Credentials{URL: web.URL, Username: "admin", Password: "s3 cr&t"}.Marshal()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		exit  int
		login string
		want  []string
	}{
		"with a login":    {1, string(credentials), []string{"FAILED a.py"}},
		"without a login": {1, "", []string{}},
		"a damaged login": {1, "{", []string{}},
		"a good task":     {0, string(credentials), []string{}},
	} {
		root := hosttest.Root(t)
		if c.login != "" {
			hosttest.Put(t, root, role.JobsCredentials, c.login)
		}
		require.NoError(t, os.MkdirAll(root.Path(taskrecord.DefaultDir), 0o700))
		store := taskrecord.Store{Dir: root.Path(taskrecord.DefaultDir)}
		w, err := store.Begin(taskrecord.Head{Handle: handle, Started: hosttest.Now})
		require.NoError(t, err)
		end := taskrecord.End{Ended: hosttest.Now.Add(time.Minute), Ending: taskrecord.Exited, Exit: &c.exit}
		require.NoError(t, w.End(end))
		a := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, root)}}
		var text, answer strings.Builder
		require.NoError(t, a.Why(t.Context(), &text, handle, term.Format{}), name)
		require.Equal(t, len(c.want) > 0, strings.Contains(text.String(), "output: FAILED a.py\n"), name)
		require.NoError(t, a.Why(t.Context(), &answer, handle, term.Format{JSON: true}), name)
		var out struct{ Output []string }
		require.NoError(t, json.Unmarshal([]byte(answer.String()), &out), name)
		require.Equal(t, c.want, out.Output, name)
	}
}

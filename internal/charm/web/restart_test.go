package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// restartedWeb simulates a web with workers that register again some requests after its
// restart.
type restartedWeb struct {
	workers   []concourse.WorkerInfo
	back      int // requests until the workers are back; -1 for never
	restarted bool
	stalls    bool // until they are back
	down      bool // it does not start again
}

func (w *restartedWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if w.restarted && w.down {
		out.WriteHeader(http.StatusBadGateway)
		return
	}
	switch r.URL.Path {
	case "/sky/issuer/token":
		out.Write([]byte(`{"access_token":"x"}`))
	case "/api/v1/info":
		out.Write([]byte(`{"version":"8.2.5"}`))
	case "/api/v1/workers":
		list := append([]concourse.WorkerInfo(nil), w.workers...)
		if w.restarted {
			if w.back--; w.back == -1 {
				list[0].Address = "10.0.0.3:40002"
				w.workers, w.back, w.stalls = list, 0, false
			}
			if w.stalls {
				list[0].State = "stalled"
			}
		}
		json.NewEncoder(out).Encode(list)
	}
}

// Special values of back.
const (
	isDown = -3 // the web does not start
	stalls = -4 // the workers stall, and are back after 3 requests
)

func TestRestartEndsAfterTheWorkersAreBack(t *testing.T) {
	const peer = "10.0.0.3"
	mine := concourse.WorkerInfo{Name: "a", Address: peer + ":40001", State: "running"}
	for name, c := range map[string]struct {
		workers []concourse.WorkerInfo
		back    int
		waited  time.Duration
	}{
		"no worker":          {nil, 0, 0},
		"back at once":       {[]concourse.WorkerInfo{mine}, 0, 0},
		"back later":         {[]concourse.WorkerInfo{mine}, 3, 3 * role.SettlePoll},
		"stalled before":     {[]concourse.WorkerInfo{mine}, stalls, 3 * role.SettlePoll},
		"never":              {[]concourse.WorkerInfo{mine}, -2, backTime},
		"at another web":     {[]concourse.WorkerInfo{{Name: "b", Address: "10.0.0.4:40001", State: "running"}}, -2, 0},
		"was not connected":  {[]concourse.WorkerInfo{{Name: "b", Address: peer + ":40001", State: "stalled"}}, -2, 0},
		"it does not start":  {[]concourse.WorkerInfo{mine}, isDown, role.WebSettleTime},
		"without an address": {[]concourse.WorkerInfo{{Name: "b", State: "running"}}, -2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			web := &restartedWeb{workers: c.workers, back: c.back, down: c.back == isDown}
			if c.back == stalls {
				web.back, web.stalls = 3, true
			}
			server := httptest.NewServer(web)
			defer server.Close()
			h := hosttest.Quiet(t, hosttest.Root(t))
			run := hosttest.NewRunner(t)
			run.On("systemctl restart "+concourse.WebUnit, func(host.Command) (string, error) {
				web.restarted = true
				return "", nil
			})
			h.Runner = run
			var waited time.Duration
			h.Clock = hosttest.Clock{T: hosttest.Now, Slept: func(d time.Duration) { waited += d }}
			api := concourse.NewAPI(server.URL, "admin", "pw")
			require.NoError(t, Restart(t.Context(), h, api, Web{LocalURL: server.URL}, peer))
			require.True(t, web.restarted)
			require.Equal(t, c.waited, waited)
		})
	}
}

// The relations of a unit that is removed end one after the other.
func TestRemovedWebIsNotRestarted(t *testing.T) {
	o := observedWeb(t, nil)
	require.NotEmpty(t, resourcetest.Trigger(t, Desire(o, nil).Resources, RestartWeb).Inputs)
	o.Facts.Removed = true
	for _, r := range Desire(o, nil).Resources {
		if trigger, is := r.(resource.Trigger); is {
			require.NotEqual(t, RestartWeb, trigger.Name)
		}
	}
}

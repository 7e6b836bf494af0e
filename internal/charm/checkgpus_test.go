package charm

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// pebbleOf starts a Pebble with the services of GPUs, each in a state.
func pebbleOf(t *testing.T, r host.Root, owner, exporter string) {
	t.Helper()
	hosttest.Put(t, r, role.PebbleSocket, "")
	require.NoError(t, r.Remove(role.PebbleSocket))
	l, err := net.Listen("unix", r.Path(role.PebbleSocket))
	require.NoError(t, err)
	results := map[string]string{"/v1/services": fmt.Sprintf(`[{"name":%q,"current":%q},{"name":%q,"current":%q}]`,
		role.GPUService, owner, role.ExporterService, exporter), "/v1/checks": `[]`}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"type":"sync","status-code":200,"status":"OK","result":%s}`, results[r.URL.Path])
	})
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer}}
	s.Start()
	t.Cleanup(s.Close)
}

// No faulty GPU is quarantined while the owner of the GPUs is dead. Without the exporter only
// metrics are missing.
func TestStatusHasTheGPUsAndWhoDoesNotWatchThem(t *testing.T) {
	const (
		damaged = `{`
		old     = `{"time":"2026-01-02T02:04:05Z","gpus":[{}]}`
		hangs   = `{"time":"2026-01-02T03:04:05Z","gpus":[{"health":{"state":"critical","reason":"hangs"}},
			{"health":{"state":"healthy"}}]}`
		critical, none = "GPU 0 is critical: hangs", "no GPU metrics: "
		unwatched      = "GPUs not watched: "
		last           = "the last reading of the GPUs is of 2026-01-02 02:04:05 UTC"
		off            = "service gpu-reports is backoff"
	)
	for name, c := range map[string]struct {
		record, owner, exporter string
		services                Services
		want                    []string
	}{
		"both work":                {hangs, "active", "active", Unchanged, []string{critical}},
		"dead exporter":            {hangs, "active", "error", Unchanged, []string{critical, none + "service rocm-exporter is error"}},
		"dead owner":               {old, "backoff", "active", Unchanged, []string{unwatched + off}},
		"dead owner, just started": {old, "backoff", "active", Restarted, []string{unwatched + off}},
		"owner that hangs":         {old, "active", "active", Unchanged, []string{unwatched + last}},
		"owner that has not read":  {old, "active", "active", Restarted, nil},
		"damaged record": {damaged, "active", "active", Unchanged,
			[]string{unwatched + "cannot read " + role.GPUReport + ": it is damaged"}},
		"no Pebble":                  {old, "", "", Unchanged, []string{unwatched + "Pebble is not running"}},
		"no Pebble, current reading": {hangs, "", "", Unchanged, []string{critical, none + "Pebble is not running"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "pb") // a socket's path has at most 107 bytes
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			unit := &Charm{Host: hosttest.Quiet(t, host.Root(dir)), Event: juju.Event{Unit: "gpu/0"}}
			hosttest.Put(t, unit.Host.Root, role.GPUReport, c.record)
			if c.owner != "" {
				pebbleOf(t, unit.Host.Root, c.owner, c.exporter)
			}
			causes := unit.Check(t.Context(), Desired{Worker: worker.Worker{Watches: true}}, c.services)
			require.Len(t, causes, len(c.want), causes)
			for i, want := range c.want {
				require.True(t, strings.HasPrefix(causes[i].Text, want), causes[i].Text)
				if strings.HasPrefix(want, unwatched) {
					require.Equal(t, []string{"run: juju ssh gpu/0 sudo PEBBLE=/var/lib/concourse-ci-machine/pebble " +
						"/opt/concourse-ci-machine/bin/pebble logs gpu-reports"}, causes[i].Commands)
				}
			}
		})
	}
}

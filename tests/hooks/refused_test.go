package hooks

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a takeover needs is judged before its first step: one that is refused leaves the
// Python charm's service as it is, reports the same in every hook, and what it reports to
// do works.
func TestRefusedTakeoverLeavesThePythonCharmsServiceRunning(t *testing.T) {
	const (
		web, worker = "/var/lib/concourse/keys/", "/var/lib/concourse-worker/keys/"
		problem     = "; "
		damaged     = "-----BEGIN PRIVATE KEY-----\ndGhpcyBpcyBubyBrZXk=\n-----END PRIVATE KEY-----\n"
	)
	for name, c := range map[string]struct {
		service, endpoint string
		damage            []string // keys
		silent            bool     // the relation's other side reports nothing yet
		want              string   // of the status
	}{
		"the web's host key":    {webUnit, "postgresql", []string{web + "tsa_host_key"}, false, "blocked: cannot use " + web + "tsa_host_key" + problem},
		"the web's session key": {webUnit, "postgresql", []string{web + "session_signing_key"}, false, "blocked: cannot use " + web + "session_signing_key" + problem},
		"both":                  {webUnit, "postgresql", []string{web + "session_signing_key", web + "tsa_host_key"}, false, "blocked: cannot use " + web + "tsa_host_key" + problem},
		"no database to read":   {webUnit, "postgresql", nil, true, "waiting: Waiting for PostgreSQL database...; the Python charm's web runs on until then"},
		"the worker's key":      {workerUnit, "flight", []string{worker + "worker_key"}, false, "blocked: cannot use " + worker + "worker_key" + problem},
		"no address of the web": {workerUnit, "flight", nil, true, "waiting: Waiting for TSA connection info...; the Python charm's worker runs on until then"},
	} {
		t.Run(name, func(t *testing.T) {
			var u *unit
			if c.service == webUnit {
				_, u, _ = oldWeb(t)
			} else {
				u = oldUnit(t, "worker", workerUnit, options{"mode": "worker"})
				u.web()
			}
			r := relationOf(u, c.endpoint)
			whole := *r
			if c.silent {
				r.AppData, r.Units = nil, nil
			}
			for _, path := range c.damage {
				require.NoError(t, u.Root.WriteFile(path, []byte(damaged), 0o600))
			}
			u.Machine.Recorded()
			before, bags := tree(u, "/etc", "/opt", "/usr", "/var"), locals(u)
			for _, hook := range []string{"upgrade-charm", "config-changed", "update-status"} {
				did := u.hook(hook)
				status := did.Status().Status + ": " + did.Status().Message
				require.Equal(t, c.want, status[:len(c.want)])
				require.Contains(t, u.refused("check-status", nil), "runs on until then")
				require.Empty(t, did.Commands)
				require.Empty(t, did.Plan())
				require.True(t, u.Machine.Up(c.service))
				require.Equal(t, bags, locals(u))
				require.NotContains(t, u.read("/var/lib/concourse-ci-machine/juju.json"), "dGhpcyBpcyBubyBrZXk", "a key that is of no use")
				for _, path := range differences(before, tree(u, "/etc", "/opt", "/usr", "/var")) {
					require.Contains(t, path, "/var/lib/concourse-ci-machine", "what is the Python charm's is left alone")
				}
			}
			require.Contains(t, u.action("plan", nil).Results["plan"], "nothing is done before the unit can be taken over")

			moved := 0
			for _, do := range regexp.MustCompile(`sudo mv (\S+) (\S+[^;])`).FindAllStringSubmatch(u.refused("check-status", nil), -1) {
				require.NoError(t, os.Rename(u.Root.Path(do[1]), u.Root.Path(do[2])))
				moved++
			}
			require.Len(t, c.damage, moved, "each is named, with what to do")
			r.AppData, r.Units = whole.AppData, whole.Units
			u.hook("update-status")
			require.Regexp(t, `^active: .* ready \(v8\.2\.5\)`, u.Model.Status().Status+": "+u.Model.Status().Message)
			require.Empty(t, u.hook("update-status").Plan())
		})
	}
}

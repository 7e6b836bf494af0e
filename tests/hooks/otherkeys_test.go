package hooks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A key that someone adds for his own worker stays, and the status reports it; keys of
// Juju's workers go with them all the same.
func TestKeysAddedByHandAreKeptAndReported(t *testing.T) {
	t.Parallel()
	const remark = "workers with 1 unknown keys may register"
	_, public := hosttest.Key("somebody's")
	mine := strings.TrimSpace(public) + " somebody@elsewhere\n"
	u := peered(t, options{"mode": "web"}).databased()
	tsa := u.Model.Relate(10, "tsa", "gpu")
	tsa.Units = map[string]map[string]string{"gpu/0": {"worker-public-key": tsaKey, "ingress-address": "10.0.1.10"}}
	u.hook("install")
	require.Equal(t, tsaKey+"\n", u.read(authorizedFile))
	require.NotContains(t, u.Model.Status().Message, "unknown keys")

	require.NoError(t, u.Root.WriteFile(authorizedFile, []byte(mine+u.read(authorizedFile)), 0o644))
	did := u.hook("update-status")
	require.Contains(t, did.Commands, "systemctl reload concourse-server.service", "nobody had to tell the web")
	require.Contains(t, u.read(authorizedFile), mine)
	require.Contains(t, u.Model.Status().Message, remark)
	require.Empty(t, u.hook("config-changed").Plan())

	// The hook that takes the worker's key back is killed before it can.
	delete(tsa.Units, "gpu/0")
	u.arm(killers[0], 1)
	killed, err := u.RelationHook(tsa, "departed", "gpu/0")
	u.Kill = nil
	require.NoError(t, err)
	require.Equal(t, sandbox.Killed, killed.Code)
	u.hook("update-status")
	require.Equal(t, mine, u.read(authorizedFile), "the worker's is gone, the other is not")
	require.Contains(t, u.Model.Status().Message, remark)

	require.NoError(t, u.Root.WriteFile(authorizedFile, nil, 0o644))
	did = u.hook("update-status")
	require.Contains(t, did.Commands, "systemctl reload concourse-server.service")
	require.Empty(t, u.read(authorizedFile))
	require.NotContains(t, u.Model.Status().Message, "unknown keys")
}

// A worker that leaves while the web has no database is not let in by the file
// that the web finds when it comes back.
func TestKeyTakenBackWhileTheWebIsDownStaysTakenBack(t *testing.T) {
	t.Parallel()
	u := peered(t, options{"mode": "web"}).databased()
	tsa := u.Model.Relate(10, "tsa", "gpu")
	tsa.Units = map[string]map[string]string{"gpu/0": {"worker-public-key": tsaKey, "ingress-address": "10.0.1.10"}}
	u.hook("install")
	database := relationOf(u, "postgresql")
	data := database.AppData
	database.AppData = map[string]string{}
	u.hook("update-status")
	delete(tsa.Units, "gpu/0")
	for _, hook := range []string{"update-status", "config-changed", "update-status"} {
		u.hook(hook)
	}
	database.AppData = data
	u.hook("update-status")
	require.Contains(t, u.Model.Status().Message, "Web server ready")
	require.Empty(t, u.read(authorizedFile))
}

// The option's keys come and go with it, a team's keys in their own file.
func TestKeysOfTheOptionComeAndGoWithIt(t *testing.T) {
	t.Parallel()
	const teamFile = "/var/lib/concourse/keys/team_worker_keys.yml"
	_, windows := hosttest.Key("windows")
	_, mac := hosttest.Key("mac")
	windows, mac = strings.TrimSpace(windows), strings.TrimSpace(mac)
	u := peered(t, options{"mode": "web", "extra-worker-keys": windows + " rdna4"}).databased()
	u.hook("install")
	require.Equal(t, windows+" extra-worker-keys\n", u.read(authorizedFile))
	require.NotContains(t, u.Model.Status().Message, "unknown keys")
	require.False(t, u.Root.Exists(teamFile))

	u.Model.Config["extra-worker-keys"] = windows + "\nteam=ios " + mac
	did := u.hook("config-changed")
	require.Equal(t, "- team: ios\n  ssh_keys:\n    - "+mac+"\n", u.read(teamFile))
	require.Contains(t, u.read("/var/lib/concourse/config.env"), "CONCOURSE_TSA_TEAM_AUTHORIZED_KEYS_FILE="+teamFile+"\n")
	require.Contains(t, did.Commands, "systemctl restart concourse-server.service", "it begins to read that file")

	u.Model.Config["extra-worker-keys"] = "team=ios " + mac
	did = u.hook("config-changed")
	require.Empty(t, u.read(authorizedFile))
	require.Contains(t, did.Commands, "systemctl reload concourse-server.service")
	require.NotContains(t, did.Commands, "systemctl restart concourse-server.service")
	require.NotContains(t, u.Model.Status().Message, "unknown keys", "what the option had is not somebody else's")

	u.Model.Config["extra-worker-keys"] = "team=ios " + mac[:80]
	u.hook("config-changed")
	require.Contains(t, u.Model.Status().Message, "extra-worker-keys: line 1 is not a public key")

	u.Model.Config["extra-worker-keys"] = ""
	u.hook("config-changed")
	require.False(t, u.Root.Exists(teamFile))
	require.NotContains(t, u.read("/var/lib/concourse/config.env"), "TEAM_AUTHORIZED")
	require.Empty(t, u.hook("config-changed").Plan())
}

package hooks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
)

// A key that somebody adds for a worker of his own stays, and the status tells of
// it; those of Juju's workers go with them all the same.
func TestKeysAddedByHandAreKeptAndTold(t *testing.T) {
	t.Parallel()
	const remark = authorizedFile + " has keys of no related worker (1), which may register"
	_, public := hosttest.Key("somebody's")
	mine := strings.TrimSpace(public) + " somebody@elsewhere\n"
	u := peered(t, options{"mode": "web"}).databased()
	tsa := u.Model.Relate(10, "tsa", "gpu")
	tsa.Units = map[string]map[string]string{"gpu/0": {"worker-public-key": tsaKey, "ingress-address": "10.0.1.10"}}
	u.hook("install")
	require.Equal(t, tsaKey+"\n", u.read(authorizedFile))
	require.NotContains(t, u.Model.Status().Message, "no related worker")

	require.NoError(t, u.Root.WriteFile(authorizedFile, []byte(mine+u.read(authorizedFile)), 0o644))
	did := u.hook("update-status")
	require.Contains(t, did.Commands, "systemctl reload concourse-server.service", "nobody had to tell the web")
	require.Contains(t, u.read(authorizedFile), mine)
	require.Contains(t, u.Model.Status().Message, remark)
	require.Empty(t, u.hook("config-changed").Plan())

	// The hook that takes the worker's key back is killed before it can.
	delete(tsa.Units, "gpu/0")
	disarm := u.arm(killers[0], 1)
	killed, err := u.RelationHook(tsa, "departed", "gpu/0")
	disarm()
	require.NoError(t, err)
	require.Equal(t, -1, killed.Code)
	u.hook("update-status")
	require.Equal(t, mine, u.read(authorizedFile), "the worker's is gone, the other is not")
	require.Contains(t, u.Model.Status().Message, remark)

	require.NoError(t, u.Root.WriteFile(authorizedFile, nil, 0o644))
	did = u.hook("update-status")
	require.Contains(t, did.Commands, "systemctl reload concourse-server.service")
	require.Empty(t, u.read(authorizedFile))
	require.NotContains(t, u.Model.Status().Message, "no related worker")
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

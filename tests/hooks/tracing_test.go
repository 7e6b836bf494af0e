package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every unit of mode=auto sends its traces, the web and the workers, until the relation
// goes; a person's plan has the same variables as the hook's.
func TestTracesFollowTheRelation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, nil)
	c.begin()
	c.database()
	c.gossip()
	files := []string{webEnvFile, "/var/lib/concourse-worker/worker-config.env"}
	services := []string{"concourse-server", "concourse-worker"}
	var before []string
	for k, u := range c.units {
		before = append(before, u.read(files[k]))
		u.Model.Relate(14, "tracing", "tempo").AppData = map[string]string{"receivers": `[{"protocol": {"name": "otlp_grpc", "type": "grpc"}, "url": "http://tempo:4317"}]`}
		c.relation(k, "tracing", "changed")
		require.Contains(t, c.status(k), "tracing: receivers: the url of otlp_")
		require.Equal(t, before[k], u.read(files[k]))
	}
	require.Equal(t, map[string]string{"receivers": `["otlp_grpc", "otlp_http"]`}, relationOf(c.units[0], "tracing").LocalApp)
	for k, u := range c.units {
		relationOf(u, "tracing").AppData["receivers"] = `[{"protocol": {"name": "otlp_grpc", "type": "grpc"}, "url": "tempo:4317"}]`
		require.Equal(t, []string{"systemctl restart " + services[k] + ".service"}, c.relation(k, "tracing", "changed").Commands)
		require.Contains(t, u.read(files[k]), "CONCOURSE_TRACING_OTLP_ADDRESS=tempo:4317\n")
		require.NotContains(t, c.status(k), "tracing")
		stdout, stderr, code := u.person("plan")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "nothing to do")
	}
	c.idle()
	c.unrelate("tracing")
	for k, u := range c.units {
		require.Equal(t, before[k], u.read(files[k]))
	}
	c.idle()
}

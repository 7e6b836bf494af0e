package concourse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var traced = Tracing{Address: "tempo:4317", TLS: true, Service: "concourse-worker", Model: "ci", ModelUUID: "f47ac10b", Unit: "gpu/3"}

func TestTracesNameTheUnitAndGoWithTheRelation(t *testing.T) {
	const attributes = "juju_charm:concourse-ci-machine,juju_model:ci,juju_model_uuid:f47ac10b,juju_application:gpu,juju_unit:gpu/3"
	const own = "CONCOURSE_TRACING_OTLP_HEADER=x-scope:team-a\nMY_OWN=1\n"
	for name, file := range map[string]func(existing string, to Tracing) string{
		"the web": func(existing string, to Tracing) string {
			f, err := WebConfig{Paths: HomeWebFiles(), Tracing: to}.File([]byte(existing))
			require.NoError(t, err)
			return string(f.Data)
		},
		"a worker": func(existing string, to Tracing) string {
			f, err := WorkerConfig{Tracing: to}.File([]byte(existing))
			require.NoError(t, err)
			return string(f.Data)
		},
	} {
		before := file(own, Tracing{})
		after := file(before, traced)
		env := EnvValues([]byte(after))
		for key, want := range map[string]string{"CONCOURSE_TRACING_OTLP_ADDRESS": "tempo:4317", "CONCOURSE_TRACING_OTLP_USE_TLS": "true",
			"CONCOURSE_TRACING_SERVICE_NAME": "concourse-worker", "CONCOURSE_TRACING_ATTRIBUTE": attributes, "CONCOURSE_TRACING_OTLP_HEADER": "x-scope:team-a"} {
			require.Equal(t, want, env[key], name)
		}
		require.Empty(t, OwnTracing([]byte(after)), name)
		require.Equal(t, after, file(after, traced), name)
		plain := traced
		plain.TLS = false
		require.NotContains(t, file(after, plain), "USE_TLS", name)
		require.Equal(t, before, file(after, Tracing{}), name)
	}
}

func TestTracesOfTheOperatorStay(t *testing.T) {
	for existing, want := range map[string]string{
		"":                                    "",
		"CONCOURSE_TRACING_OTLP_HEADER=x:y\n": "", // adds to the relation's address
		"CONCOURSE_TRACING_OTLP_ADDRESS=mine:4317\n":   "CONCOURSE_TRACING_OTLP_ADDRESS",
		"CONCOURSE_TRACING_JAEGER_ENDPOINT=http://j\n": "CONCOURSE_TRACING_JAEGER_ENDPOINT",
		"CONCOURSE_TRACING_ATTRIBUTE=env:prod\n":       "CONCOURSE_TRACING_ATTRIBUTE",
	} {
		require.Equal(t, want, OwnTracing([]byte(existing)))
		f, err := WorkerConfig{}.File([]byte(existing))
		require.NoError(t, err)
		require.Contains(t, string(f.Data), existing)
	}
	f, err := WorkerConfig{Tracing: traced}.File(nil)
	require.NoError(t, err)
	require.Equal(t, "CONCOURSE_TRACING_JAEGER_ENDPOINT", OwnTracing(append(f.Data, "CONCOURSE_TRACING_JAEGER_ENDPOINT=http://j\n"...)), "beside the charm's")
}

package role

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

func TestTracesUseTheRelationUnlessTheOperatorSetsAReceiver(t *testing.T) {
	const offer = `[{"protocol": {"name": "otlp_grpc", "type": "grpc"}, "url": "tempo:4317"}, {"protocol": {"name": "otlp_http", "type": "http"}, "url": "https://tempo:4318"}]`
	for name, c := range map[string]struct {
		receivers, env string
		flags          []string
		remark         string
	}{
		"as offered": {receivers: offer, flags: []string{"--tracing-service-name=ci", "--enable-across-step"}},
		"not yet":    {receivers: "[]", remark: "tempo offers no otlp_grpc yet, and no traces are sent — run: juju status tempo"},
		"no URL": {receivers: `[{"protocol": {"name": "otlp_grpc"}, "url": "http://u:hunter2@tempo"}]`,
			remark: "receivers: the url of otlp_grpc is not host:port without scheme, user and path: tempo must correct it, or remove the relation; until then its data is not used — run: juju remove-relation web:tracing tempo"},
		"a flag": {receivers: offer, flags: []string{"--enable-across-step", "--tracing-jaeger-endpoint=http://j"},
			remark: "extra-web-flags has --tracing-jaeger-endpoint, which wins: remove it to send traces to tempo"},
		"a variable": {receivers: "{", env: "CONCOURSE_TRACING_OTLP_ADDRESS=mine:4317\n",
			remark: "your CONCOURSE_TRACING_OTLP_ADDRESS wins: remove it from the file of the environment to send traces to tempo"},
	} {
		o := Observed{Facts: model.Facts{Unit: "web/1", Model: "ci", ModelUUID: "f47ac10b",
			Watchers: model.Watchers{Tracing: &model.Relation{App: "tempo", Remote: map[string]string{"receivers": c.receivers}}}}}
		got, causes := Tracing(o, []byte(c.env), c.flags, "concourse-web")
		if c.remark == "" {
			require.Empty(t, causes, name)
			require.Equal(t, concourse.Tracing{Address: "tempo:4317", TLS: true, Service: "concourse-web", Model: "ci", ModelUUID: "f47ac10b", Unit: "web/1"}, got, name)
			continue
		}
		require.Zero(t, got, name)
		require.Len(t, causes, 1, name)
		require.Equal(t, status.Active, causes[0].Kind, name)
		require.Equal(t, "tracing: "+c.remark, causes[0].String(), name)
	}
	got, causes := Tracing(Observed{}, nil, nil, "concourse-web")
	require.Zero(t, got)
	require.Empty(t, causes)
}

//go:build e2e

package concourse

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

const tracesAt = gateway + ":4317"

// collector takes traces by OTLP over gRPC, as Tempo does.
type collector struct {
	mu    sync.Mutex
	spans map[string]map[string]bool // their names, by service and unit
}

// newCollector runs one, to which the units are related.
func newCollector(t *testing.T, units []*unit) *collector {
	t.Helper()
	c := &collector{spans: map[string]map[string]bool{}}
	l, err := net.Listen("tcp", tracesAt)
	require.NoError(t, err)
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "opentelemetry.proto.collector.trace.v1.TraceService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: export}}}, c)
	go server.Serve(l) // until it is stopped
	t.Cleanup(server.Stop)
	for _, u := range units {
		u.Model.Relate(6, "tracing", "tempo").AppData = map[string]string{"receivers": `[{"protocol": {"name": "otlp_grpc", "type": "grpc"}, "url": "` + tracesAt + `"}, ` +
			`{"protocol": {"name": "otlp_http", "type": "http"}, "url": "http://` + gateway + `:4318"}]`}
	}
	return c
}

// export is the service's one method. On the wire its request is a TracesData.
func export(c any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var traces trace.TracesData
	if err := decode(&traces); err != nil {
		return nil, err
	}
	c.(*collector).take(&traces)
	return &emptypb.Empty{}, nil
}

func (c *collector) take(traces *trace.TracesData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range traces.ResourceSpans {
		from := map[string]string{}
		for _, a := range of.Resource.Attributes {
			from[a.Key] = a.Value.GetStringValue()
		}
		who := fmt.Sprintf("%s of %s", from["service.name"], from["juju_unit"])
		if c.spans[who] == nil {
			c.spans[who] = map[string]bool{}
		}
		for _, s := range of.ScopeSpans {
			for _, span := range s.Spans {
				c.spans[who][span.Name] = true
			}
		}
	}
}

// traces is that the spans of a build are there, from the web and from the worker that
// had its volumes, and that nothing is left to ask.
func (s *story) traces(t *testing.T) {
	require.Equal(t, relation.TracingRequest(), relationOf(s.web(), "tracing").LocalApp)
	until(t, func() bool {
		s.collector.mu.Lock()
		defer s.collector.mu.Unlock()
		web, workers := s.collector.spans["concourse-web of "+s.web().Model.Unit], map[string]bool{}
		for _, u := range s.app.units[1:] {
			for name := range s.collector.spans["concourse-worker of "+u.Model.Unit] {
				workers[name] = true
			}
		}
		return web["task"] && workers["volumeRepository.CreateVolume"]
	}, "%v", s.collector)
}

package relation

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordedTracing has the databag that the provider's library wrote.
func recordedTracing(t testing.TB, which string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/tracing.json")
	require.NoError(t, err)
	var recorded map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &recorded))
	var bag map[string]string
	require.NoError(t, json.Unmarshal(recorded[which], &bag), which)
	return bag
}

func TestTracesUseTheGRPCReceiver(t *testing.T) {
	const address = "tempo-0.tempo-endpoints.cos.svc.cluster.local:4317"
	for which, want := range map[string]TraceReceiver{"plain": {Address: address}, "tls": {Address: address, TLS: true}} {
		r, ok, problem := ParseTracing(recordedTracing(t, which))
		require.NoError(t, problem, which)
		require.True(t, ok, which)
		require.Equal(t, want, r, which)
	}
	for name, bag := range map[string]map[string]string{"nothing yet": {}, "what was not asked yet": recordedTracing(t, "before"),
		"of another protocol": {"receivers": `[{"protocol": {"name": "otlp_http", "type": "http"}, "url": "https://tempo:4318"}]`}} {
		_, ok, problem := ParseTracing(bag)
		require.NoError(t, problem, name)
		require.False(t, ok, name)
	}
}

func TestInvalidReceiversAreProblems(t *testing.T) {
	const no = "receivers: the url of otlp_grpc is not host:port without scheme, user and path"
	for url, want := range map[string]string{
		"[fd00::9]:4317": "", "10.0.0.7:4317": "", "tempo:4317": "",
		"http://tempo:4317": no, "https://tempo:4317": no, "tempo:4317/v1": no, "u:p@tempo:4317": no, "tempo": no, "": no, "tempo:0": no, "tempo:65536": no,
		`tempo:4317\nX=1`: no, "tem po:4317": no, strings.Repeat("a", 300) + ":4317": no,
	} {
		r, ok, problem := ParseTracing(map[string]string{"receivers": `[{"protocol": {"name": "otlp_grpc", "type": "grpc"}, "url": "` + url + `"}]`})
		if want == "" {
			require.NoError(t, problem, url)
			require.Equal(t, TraceReceiver{Address: url}, r)
			continue
		}
		require.EqualError(t, problem, want, url)
		require.False(t, ok, url)
		require.Zero(t, r, url)
	}
	for text, want := range map[string]string{`{}`: "want a JSON list of receivers", `["otlp_grpc"]`: "want a JSON list of receivers", "otlp_grpc": "want a JSON list of receivers",
		strings.Repeat(" ", 20000): "it is longer than 16384 bytes"} {
		_, _, problem := ParseTracing(map[string]string{"receivers": text})
		require.EqualError(t, problem, "receivers: "+want)
	}
}

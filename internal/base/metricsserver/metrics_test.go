package metricsserver

import (
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestMetricsAreInTheFormatThatIsAskedFor(t *testing.T) {
	asked := prometheus.NewCounter(prometheus.CounterOpts{Name: "asked_total", Help: "How often."})
	h := NewLimited(places).Wrap(Metrics(false, asked))
	get := func(header ...string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		h.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
		return w
	}
	require.Equal(t, "# HELP asked_total How often.\n# TYPE asked_total counter\nasked_total 0\n", get().Body.String())
	require.Equal(t, "# HELP asked How often.\n# TYPE asked counter\nasked_total 0.0\n# EOF\n", get("Accept", "application/openmetrics-text;version=1.0.0").Body.String())
	require.Equal(t, "gzip", get("Accept-Encoding", "gzip").Header().Get("Content-Encoding"))
	require.Contains(t, get("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited").Header().Get("Content-Type"), "protobuf")
}

func TestScrapeOfNamesReturnsOnlyThese(t *testing.T) {
	one := prometheus.NewGauge(prometheus.GaugeOpts{Name: "one", Help: "1"})
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "other", Help: "2"})
	w := httptest.NewRecorder()
	Metrics(false, one, other).ServeHTTP(w, httptest.NewRequest("GET", "/metrics?name[]=one&name[]=absent", nil))
	require.Equal(t, "# HELP one 1\n# TYPE one gauge\none 0\n", w.Body.String())
}

func TestMetricsOfTheProgramNeedTheFlag(t *testing.T) {
	for _, process := range []bool{false, true} {
		w := httptest.NewRecorder()
		Metrics(process).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, name := range []string{"\ngo_goroutines ", "\nprocess_resident_memory_bytes "} {
			if process {
				require.Contains(t, w.Body.String(), name)
			} else {
				require.NotContains(t, w.Body.String(), name)
			}
		}
	}
}

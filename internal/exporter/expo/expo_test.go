package expo

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The short cuts write what strconv does.
func TestNumbersAreThoseOfStrconv(t *testing.T) {
	numbers := []float64{0, 1, -1, 0.5, 0.05, 0.01, 0.001, 51.25, 99.99, 999999, 999999.99, 1e6, 1e6 + 1, 2147483648, 206141652992,
		999999999999999, 1e15, 1 << 60, 0.1 + 0.2, 1e-9, 3.3, 1e20, -0.25, -1e7, math.MaxFloat64}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		numbers = append(numbers, float64(r.Int64N(1<<uint(1+r.IntN(60)))), float64(r.IntN(1e8))/100, r.Float64(), float64(r.IntN(1000))/1000)
	}
	for _, v := range numbers {
		if want, got := strconv.FormatFloat(v, 'g', -1, 64), string(appendNumber(nil, v)); want != got {
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, "+Inf", string(appendNumber(nil, math.Inf(1))))
	require.Equal(t, "NaN", string(appendNumber(nil, math.NaN())))
}

func TestSeriesAreGroupedByFamilyInTheOrderOfNames(t *testing.T) {
	w := NewWriter([]Family{{Name: "b_total", Help: "has \\ and \n and \"", Kind: Counter}, {Name: "a", Help: "first"}, {Name: "unused"}})
	b := NewSeries(0, "b_total", Label{"z", "last"}, Label{"gpu", "a\"b\\c\nd\xff"})
	a := NewSeries(1, "a")
	samples := []Sample{{&b, 3}, {&a, 0.25}, {&b, 1e9}}
	samples = append(samples, Sample{&a, 7}.Fix())
	require.Equal(t, `# HELP a first
# TYPE a gauge
a 0.25
a 7
# HELP b_total has \\ and \n and "
# TYPE b_total counter
b_total{gpu="a\"b\\c\nd`+"\ufffd"+`",z="last"} 3
b_total{gpu="a\"b\\c\nd`+"\ufffd"+`",z="last"} 1e+09
`, string(w.Append(nil, Text, samples)))
	open := string(w.Append(nil, OpenMetrics, samples))
	require.Contains(t, open, "# HELP b has \\\\ and \\n and \\\"\n# TYPE b counter\nb_total{")
	require.Regexp(t, "# EOF\n$", open)
}

func TestNegotiation(t *testing.T) {
	for accept, want := range map[string]Format{
		"":                             Text,
		"text/html":                    Text,
		"text/plain":                   Text,
		"application/openmetrics-text": OpenMetrics,
		"application/openmetrics-text; version=9.0": Text,
		"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1": OpenMetrics,
		"application/openmetrics-text;q=0.2,text/plain;q=0.7": Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": Text,
		"*/*": Text,
	} {
		require.Equal(t, want, Negotiate(accept), accept)
	}
	for accept, want := range map[string]bool{"": false, "gzip": true, "deflate, GZIP;q=0.5": true, "gzip;q=0": false, "*": false, "gzipped": false} {
		require.Equal(t, want, Gzip(accept), accept)
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add("text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	f.Add(";;;q==,,=;")
	f.Fuzz(func(t *testing.T, accept string) {
		require.LessOrEqual(t, Negotiate(accept), OpenMetrics)
		Gzip(accept)
	})
}

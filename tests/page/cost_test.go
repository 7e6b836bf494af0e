//go:build e2e

package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPageOf64GPUs measures the time and the bytes of one answer.
func BenchmarkPageOf64GPUs(b *testing.B) {
	s := httptest.NewServer(pageOf(gpus(64)))
	defer s.Close()
	var n int64
	for b.Loop() {
		answer, err := http.Get(s.URL)
		require.NoError(b, err)
		n, err = io.Copy(io.Discard, answer.Body)
		require.NoError(b, err)
		require.NoError(b, answer.Body.Close())
	}
	b.ReportMetric(float64(n), "bytes")
}

package hosttest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Answering is the URL of a server that answers each call so.
func Answering(t *testing.T, code int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

package garden

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExitStatusThatIsNotANumberIsNotKnown(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "137": true, "": false, "x": false, "99999999999999999999": false} {
		worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.EscapedPath() == "/containers/a%2Fb/properties/garden.process-exit-status" {
				_, _ = w.Write([]byte(`{"value":"` + value + `"}`))
			}
		}))
		_, err := ExitStatus(t.Context(), worker.URL, "a/b")
		worker.Close()
		require.Equal(t, want, err == nil, value)
	}
	worker := httptest.NewServer(http.NotFoundHandler())
	defer worker.Close()
	_, err := ExitStatus(t.Context(), worker.URL, "a")
	require.ErrorIs(t, err, ErrNoExit)
	_, err = ExitStatus(t.Context(), "http://127.0.0.1:1", "a")
	require.NotErrorIs(t, err, ErrNoExit, "a worker that does not answer may have it")
}

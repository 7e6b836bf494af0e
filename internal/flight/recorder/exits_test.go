package recorder

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExitStatusThatIsNotANumberIsNotKnown(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "137": true, "": false, "x": false, "99999999999999999999": false} {
		worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"value":"` + value + `"}`))
		}))
		exit, err := (&Recorder{Options: Options{Worker: worker.URL}}).fetchExit(t.Context(), "handle")
		worker.Close()
		require.Equal(t, want, err == nil, value)
		require.Equal(t, want, exit != nil, value)
	}
}

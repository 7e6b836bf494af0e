package metricsserver

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// places are the places of the tests.
const places = 4

// unread is an answer that its client does not read.
type unread struct {
	*httptest.ResponseRecorder
	reached chan<- struct{}
	end     <-chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	u.reached <- struct{}{}
	<-u.end
	return len(b), nil
}

func TestUnreadAnswersDoNotBlockScrapes(t *testing.T) {
	h := NewLimited(places).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") }))
	reached, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(end); wg.Wait() })
	for range 2 * places {
		wg.Go(func() {
			h.ServeHTTP(unread{httptest.NewRecorder(), reached, end}, httptest.NewRequest("GET", "/metrics", nil))
		})
		<-reached
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "up 1\n", w.Body.String())
}

func TestScrapesWaitForTheirTurnUntilTheirClientLeaves(t *testing.T) {
	l := NewLimited(places)
	reached, end := make(chan struct{}), make(chan struct{})
	h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached <- struct{}{}
		<-end
		io.WriteString(w, "up 1\n")
	}))
	var wg sync.WaitGroup
	codes := make(chan int, places+1)
	for range places + 1 {
		wg.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			codes <- w.Code
		})
	}
	for range places {
		<-reached
	}
	gone, leave := context.WithCancel(context.Background())
	leave()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil).WithContext(gone))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	close(end)
	<-reached
	wg.Wait()
	for range places + 1 {
		require.Equal(t, http.StatusOK, <-codes)
	}
}

func TestAnswersAreSentAsTheyWereMade(t *testing.T) {
	l := NewLimited(places)
	get := func(accept string, made func(http.ResponseWriter)) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { made(w) })).ServeHTTP(w, r)
		return w
	}
	long := func(w http.ResponseWriter) { io.WriteString(w, strings.Repeat("long ", 1000)) }
	require.Equal(t, 5000, get("", long).Body.Len())
	for _, accept := range []string{"", "gzip"} {
		w := get(accept, func(w http.ResponseWriter) { http.Error(w, "broken", http.StatusInternalServerError) })
		require.Equal(t, http.StatusInternalServerError, w.Code, "what came before is gone")
		require.Equal(t, accept, w.Header().Get("Content-Encoding"))
		if accept == "" {
			require.Equal(t, "broken\n", w.Body.String())
			require.Equal(t, "7", w.Header().Get("Content-Length"))
			continue
		}
		z, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, "broken\n", string(text))
	}
	w := get("gzip", func(w http.ResponseWriter) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "compressed already")
	})
	require.Equal(t, "compressed already", w.Body.String())
}

func TestHandlerThatBreaksOffHoldsNoPlace(t *testing.T) {
	h := NewLimited(places).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for range 2 * places {
		require.Panics(t, func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) })
	}
}

func TestGzipIsForWhoAsksForIt(t *testing.T) {
	for accept, want := range map[string]bool{"": false, "gzip": true, "deflate, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0": false,
		"*": false, "gzipped": false, "br;q=1, gzip ;q=x": true} {
		require.Equal(t, want, wantsGzip(accept), accept)
	}
}

func FuzzGzipIsForWhoAsksForIt(f *testing.F) {
	f.Add("deflate, GZIP;q=0.5")
	f.Add("gzip;;;q==,,=;")
	f.Fuzz(func(t *testing.T, accept string) {
		if wantsGzip(accept) {
			require.Contains(t, strings.ToLower(accept), "gzip")
		}
	})
}

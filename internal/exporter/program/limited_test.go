package program

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func TestAnswersThatNobodyReadsHoldUpNoScrape(t *testing.T) {
	h := NewLimited().Handle(func(_ http.ResponseWriter, _ *http.Request, b []byte) (string, []byte) {
		return "text/plain", append(b, "up 1\n"...)
	})
	reached, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(end); wg.Wait() })
	for range 2 * maxScrapes {
		wg.Go(func() {
			h(unread{httptest.NewRecorder(), reached, end}, httptest.NewRequest("GET", "/metrics", nil))
		})
		<-reached
	}
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "up 1\n", w.Body.String())
}

func TestScrapesWaitForTheirTurnUntilTheirClientIsGone(t *testing.T) {
	l := NewLimited()
	reached, end := make(chan struct{}), make(chan struct{})
	h := l.Handle(func(_ http.ResponseWriter, _ *http.Request, b []byte) (string, []byte) {
		reached <- struct{}{}
		<-end
		return "text/plain", append(b, "up 1\n"...)
	})
	var wg sync.WaitGroup
	codes := make(chan int, maxScrapes+1)
	for range maxScrapes + 1 {
		wg.Go(func() {
			w := httptest.NewRecorder()
			h(w, httptest.NewRequest("GET", "/metrics", nil))
			codes <- w.Code
		})
	}
	for range maxScrapes {
		<-reached
	}
	gone, leave := context.WithCancel(context.Background())
	leave()
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest("GET", "/metrics", nil).WithContext(gone))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	close(end)
	<-reached
	wg.Wait()
	for range maxScrapes + 1 {
		require.Equal(t, http.StatusOK, <-codes)
	}
}

func TestReadThatAnswersItself(t *testing.T) {
	h := NewLimited().Handle(func(w http.ResponseWriter, _ *http.Request, b []byte) (string, []byte) {
		http.Error(w, "broken", http.StatusInternalServerError)
		return "", b
	})
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "broken\n", w.Body.String())
}

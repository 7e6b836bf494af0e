package metricsserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxWait bounds the wait of a request for its turn. After it the answer is 503.
const maxWait = 5 * time.Second

// Limited lets a few requests at a time through to its handlers. A request occupies its
// place only until its answer is complete, because a slow client may take any time to read
// it.
type Limited struct {
	free    chan struct{}
	answers sync.Pool // of *answer
	zips    sync.Pool // of *gzip.Writer
}

// NewLimited allows atOnce requests to run. More requests wait for their turn.
func NewLimited(atOnce int) *Limited { return &Limited{free: make(chan struct{}, atOnce)} }

// Wrap limits h. The answer is collected in memory, so it is sent completely or not at all.
func (l *Limited) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.enter(r.Context()) {
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		a, _ := l.answers.Get().(*answer)
		if a == nil {
			a = new(answer)
		}
		a.to, a.code = w, http.StatusOK
		a.Reset()
		defer func() { a.to = nil; l.answers.Put(a) }()
		func() {
			defer func() { <-l.free }()
			h.ServeHTTP(a, r)
		}()
		l.send(w, r, a)
	})
}

func (l *Limited) enter(ctx context.Context) bool {
	late := time.NewTimer(maxWait)
	defer late.Stop()
	select {
	case l.free <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-late.C:
	}
	return false
}

// answer holds an unsent answer. Its header goes directly to the client's writer, which
// sends nothing yet.
type answer struct {
	bytes.Buffer
	to   http.ResponseWriter
	code int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.to.Header() }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }

// send compresses only on request, because on a machine's own network sending is faster
// than compressing.
func (l *Limited) send(w http.ResponseWriter, r *http.Request, a *answer) {
	h := w.Header()
	h.Set("Vary", "Accept, Accept-Encoding")
	if h.Get("Content-Encoding") != "" || !wantsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Length", strconv.Itoa(a.Len()))
		w.WriteHeader(a.code)
		w.Write(a.Bytes())
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(a.code)
	z, _ := l.zips.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // no error for a valid level
	} else {
		z.Reset(w)
	}
	z.Write(a.Bytes())
	z.Close()
	l.zips.Put(z)
}

// wantsGzip reports whether an Accept-Encoding header requests gzip by name.
func wantsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, rest, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, given := strings.Cut(rest, "=")
		v, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !given || err != nil || v > 0
	}
	return false
}

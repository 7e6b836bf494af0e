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

// maxWait is how long a request waits for its turn. Who waited in vain is answered 503.
const maxWait = 5 * time.Second

// Limited lets few requests at a time through to its handlers. It is theirs only
// until they have what to answer: sending takes as long as a client likes.
type Limited struct {
	free    chan struct{}
	answers sync.Pool // of *answer
	zips    sync.Pool // of *gzip.Writer
}

// NewLimited lets so many requests run at once; more wait for their turn.
func NewLimited(atOnce int) *Limited { return &Limited{free: make(chan struct{}, atOnce)} }

// Wrap limits h. It answers into memory, so it has all of its answer or none sent.
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

// answer is one that is not sent yet, but for its header, which nothing sends before.
type answer struct {
	bytes.Buffer
	to   http.ResponseWriter
	code int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.to.Header() }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }

// send compresses only for who asks: on a machine's own network an answer is
// sooner sent than compressed.
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
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists is no error
	} else {
		z.Reset(w)
	}
	z.Write(a.Bytes())
	z.Close()
	l.zips.Put(z)
}

// wantsGzip reports whether an Accept-Encoding header asks for gzip by its name.
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

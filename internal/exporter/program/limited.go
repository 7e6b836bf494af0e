package program

import (
	"compress/gzip"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"concourse-ci-machine/internal/exporter/expo"
)

const (
	// maxScrapes is how many scrapes may run at once; more wait for their turn.
	maxScrapes = 16
	// maxWait is for how long. Who waited in vain is answered 503.
	maxWait = 5 * time.Second
)

// Limited lets few requests at a time through to its handlers. It is theirs only
// until they have what to answer: sending takes as long as a client likes.
type Limited struct {
	free chan struct{}
	text sync.Pool // of *[]byte
	zips sync.Pool // of *gzip.Writer
}

// NewLimited has room for all that a few Prometheus servers ask at once.
func NewLimited() *Limited { return &Limited{free: make(chan struct{}, maxScrapes)} }

// Handle answers with what read appends to b, and its kind. A read that gives no
// kind has answered itself.
func (l *Limited) Handle(read func(w http.ResponseWriter, r *http.Request, b []byte) (kind string, text []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !l.enter(r.Context()) {
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		b, _ := l.text.Get().(*[]byte)
		if b == nil {
			b = new([]byte)
		}
		defer l.text.Put(b)
		kind := ""
		func() {
			defer func() { <-l.free }()
			kind, *b = read(w, r, (*b)[:0])
		}()
		if kind != "" {
			l.send(w, r, kind, *b)
		}
	}
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

// send compresses only for who asks: on a machine's own network a scrape is
// sooner sent than compressed.
func (l *Limited) send(w http.ResponseWriter, r *http.Request, kind string, b []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept, Accept-Encoding")
	if !expo.Gzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Length", strconv.Itoa(len(b)))
		w.Write(b)
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, _ := l.zips.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists is no error
	} else {
		z.Reset(w)
	}
	z.Write(b)
	z.Close()
	l.zips.Put(z)
}

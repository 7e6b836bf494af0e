package host

import (
	"bytes"
	"strings"
)

// tail keeps what is written to it, or of that the last bytes. The buffer is no
// anonymous field: it has a ReadFrom, which would take all.
type tail struct {
	b     bytes.Buffer
	limit int // 0: all is kept
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n, err := t.b.Write(p)
	if t.limit > 0 && t.b.Len() > 2*t.limit { // not at each write: what stays is copied then
		t.b.Next(t.b.Len() - t.limit)
	}
	return n, err
}

// Bytes are those that are kept.
func (t *tail) Bytes() []byte {
	b := t.b.Bytes()
	if t.limit > 0 && len(b) > t.limit {
		b = b[len(b)-t.limit:]
	}
	return b
}

func (t *tail) text() string { return strings.TrimSpace(string(t.Bytes())) }

package host

import (
	"bytes"
	"strings"
)

// tail keeps the last bytes written to it, or all. The buffer is not embedded, because its
// ReadFrom would keep everything.
type tail struct {
	b     bytes.Buffer
	limit int // 0: keep everything
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n, err := t.b.Write(p)
	if t.limit > 0 && t.b.Len() > 2*t.limit { // not at each write, because this copies the rest
		t.b.Next(t.b.Len() - t.limit)
	}
	return n, err
}

// Bytes returns the kept bytes.
func (t *tail) Bytes() []byte {
	b := t.b.Bytes()
	if t.limit > 0 && len(b) > t.limit {
		b = b[len(b)-t.limit:]
	}
	return b
}

func (t *tail) text() string { return strings.TrimSpace(string(t.Bytes())) }

package resource

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// httpError reports a server's refusal.
type httpError struct {
	URL  string // without a password
	Code int
}

func (e *httpError) Error() string {
	return fmt.Sprintf("cannot fetch %s: the server answered %d %s", e.URL, e.Code, http.StatusText(e.Code))
}

// Temporary returns true, because servers recover and mirrors get complete.
func (e *httpError) Temporary() bool { return true }

const (
	fetchDeadline = 30 * time.Second
	fetchLimit    = 1 << 20 // bytes; keys have a few thousand
)

// fetch downloads a small file. The error is a *url.Error if the server can't be reached,
// and an *httpError if it refuses.
func fetch(ctx context.Context, from string, p Proxies) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{Proxy: p.Func(), DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &httpError{req.URL.Redacted(), resp.StatusCode}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, fetchLimit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot fetch %s: %w", req.URL.Redacted(), err)
	}
	if len(data) > fetchLimit {
		return nil, fmt.Errorf("cannot fetch %s: it is larger than %d bytes", req.URL.Redacted(), fetchLimit)
	}
	return data, nil
}

// redacted returns a URL without secrets, for logs.
func redacted(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the configured URL"
	}
	return u.Redacted()
}

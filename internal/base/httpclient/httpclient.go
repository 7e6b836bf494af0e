// Package httpclient makes the HTTP clients of all programs, and reads short answers of this
// machine.
package httpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Options describe a client. The zero Options are for short requests on the local network.
type Options struct {
	Proxy func(*http.Request) (*url.URL, error) // nil: none, whatever the environment has
	// Redirect decides on redirections as in http.Client. Nil follows none, because a
	// redirection could send a password or a token to an unknown server.
	Redirect func(to *http.Request, via []*http.Request) error
	TLS      *tls.Config
	Connect  time.Duration // bound of a connection, and again of its TLS handshake; 0: 20 s
	Header   time.Duration // bound of the wait for an answer; 0: that of the request
	Timeout  time.Duration // bound of a request with its body; 0: the request's context
	Idle     int           // connections that stay open; 0: each serves one request
	Raw      bool          // the server must not compress the body
}

// New returns a client, which always has a bound on connections.
func New(o Options) *http.Client {
	connect := cmp.Or(o.Connect, 20*time.Second)
	c := &http.Client{Timeout: o.Timeout, CheckRedirect: o.Redirect, Transport: &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            (&net.Dialer{Timeout: connect}).DialContext,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    connect,
		ResponseHeaderTimeout:  o.Header,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      o.Idle == 0,
		MaxIdleConns:           o.Idle,
		IdleConnTimeout:        2 * time.Minute,
		DisableCompression:     o.Raw,
	}}
	if o.Redirect == nil {
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return c
}

// Local returns a client for one request to a server of this machine or of a neighbour. It
// uses no proxy and follows no redirection. The request's context usually has a deadline
// before the client's.
func Local() *http.Client { return New(Options{Timeout: 30 * time.Second}) }

// Get requests a URL of this machine or of a neighbour by a Local client. It returns the
// status and at most limit bytes of the body. A status with an error is that of a body that
// broke off.
func Get(ctx context.Context, url string, limit int64) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := Local().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, limit))
	return resp.StatusCode, body, err
}

// Follow follows up to ten redirections, as http.DefaultClient does, but never from https
// to http.
func Follow(to *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 10:
		return errors.New("more than 10 redirects")
	case to.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return errors.New("redirected from https to http")
	}
	return nil
}

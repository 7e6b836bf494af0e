// Package webclient calls the API of a Concourse web as one user. It logs in with a password
// as fly does, and keeps the token in memory only. It follows no redirection, because it
// could send a password or a token to an unknown server.
package webclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/jsonlist"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
)

// Bounds on an answer. A site of 10,000 jobs answers with about 15 MB.
const (
	MaxAnswer = 64 << 20 // bytes, after decompression
	MaxItems  = 100_000  // elements of a list
)

// Client sends requests to one web. It is for one goroutine.
type Client struct {
	Credentials login.Credentials
	http        *http.Client
	now         func() time.Time
	token       token
}

// New returns a client, which sends no request yet. trust may be nil. The client uses no
// proxy, because the web is on this machine or a neighbour.
func New(c login.Credentials, trust *tls.Config, now func() time.Time) *Client {
	return &Client{Credentials: c, now: now, http: httpclient.New(httpclient.Options{
		TLS: trust, Connect: 10 * time.Second, Idle: 2})}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request describes one call.
type Request struct {
	What   string // for errors: "list the workers"; "" names method and path
	Method string // "" is GET
	Path   string
	Body   any // JSON; nil: none
}

func (r Request) what() string {
	return cmp.Or(r.What, strings.ToLower(cmp.Or(r.Method, http.MethodGet))+" "+r.Path)
}

// Open sends a request with a valid token, and with a new token after a 401. It returns the
// body of a successful answer, which the caller bounds and closes. Its errors, and those of
// Call and List, are *CallError.
func (c *Client) Open(ctx context.Context, r Request) (io.ReadCloser, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return nil, err
		}
	}
	for retried := false; ; retried = true {
		if err := c.login(ctx, r); err != nil {
			return nil, err
		}
		// The URL keeps its path, such as behind a reverse proxy.
		address := strings.TrimRight(c.Credentials.URL, "/") + r.Path
		req, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(body))
		if err != nil {
			return nil, c.unreachable(r, err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token.text)
		req.Header.Set("Accept", "application/json")
		resp, err := c.http.Do(req)
		switch {
		case err != nil:
			return nil, c.unreachable(r, err)
		case resp.StatusCode/100 == 2:
			return resp.Body, nil
		case resp.StatusCode != http.StatusUnauthorized || retried:
			defer discard(resp.Body)
			return nil, c.refusal(r, Refused, resp, reasonOf(resp.Body))
		}
		discard(resp.Body)
		c.token = token{}
	}
}

// Call sends a request and decodes the answer, unless into is nil.
func (c *Client) Call(ctx context.Context, r Request, into any) error {
	body, err := c.Open(ctx, r)
	if err != nil {
		return err
	}
	defer discard(body)
	if into == nil {
		return nil
	}
	return c.decode(r, body, into)
}

// decode decodes the answer to r.
func (c *Client) decode(r Request, body io.Reader, into any) error {
	data, err := io.ReadAll(io.LimitReader(body, MaxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(r, err)
	case len(data) > MaxAnswer:
		return c.senseless(r, fmt.Sprintf("it has more than %d bytes", MaxAnswer))
	case json.Unmarshal(data, into) != nil:
		return c.senseless(r, "it is not the expected JSON")
	}
	return nil
}

// List requests a list and passes its elements to each, so that only the used parts stay in
// memory. Some elements are passed even if it fails later.
func List[T any](ctx context.Context, c *Client, r Request, each func(T)) error {
	body, err := c.Open(ctx, r)
	if err != nil {
		return err
	}
	defer body.Close()
	n := 0
	err = jsonlist.Read(body, MaxAnswer, func(d *json.Decoder) error {
		if n++; n > MaxItems {
			return fmt.Errorf("it has more than %d elements", MaxItems)
		}
		var element T
		if d.Decode(&element) != nil {
			return jsonlist.ErrForm // an answer must not be in logs
		}
		each(element)
		return nil
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonlist.ErrRead):
		return c.unreachable(r, err)
	}
	return c.senseless(r, err.Error())
}

// discard reads the few bytes that keep a connection usable, and closes the body.
func discard(body io.ReadCloser) {
	io.CopyN(io.Discard, body, 4<<10)
	body.Close()
}

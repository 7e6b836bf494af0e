package jobexporter

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flylogin"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter/login"
)

// result names the result of a poll, as in the label result.
type result string

const (
	resultOK          result = "ok"
	resultCredentials result = "credentials" // the file cannot be used
	resultLogin       result = "login"       // Concourse refuses the user
	resultRefused     result = "refused"     // it refuses the request: 401 twice, 403, 3xx
	// it fails at the request or the login, 5xx: usually because its database is missing
	resultFailing     result = "failing"
	resultUnreachable result = "unreachable" // no answer, or not in time
	resultAnswer      result = "answer"      // an answer that makes no sense
)

// failure combines an error with its kind.
type failure struct {
	result result
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(r result, format string, args ...any) error {
	return &failure{r, fmt.Errorf(format, args...)}
}

// client sends requests to one Concourse as one user. It is for one goroutine.
type client struct {
	credentials login.Credentials
	http        *http.Client
	now         func() time.Time
	token       token
}

// newClient returns a client that trusts only the PEM text ca, or the machine's authorities
// if it is empty. The client uses no proxy, because the web is on this machine or a
// neighbour.
func newClient(c login.Credentials, ca []byte, now func() time.Time) (*client, error) {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName},
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           2,
		IdleConnTimeout:        2 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if c.CAFile != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("cannot use ca-file %s: there is no PEM certificate in it", c.CAFile)
		}
	}
	return &client{credentials: c, now: now, http: &http.Client{Transport: t, CheckRedirect: flylogin.Stay}}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// list requests a list of the API and passes its elements to each. Some elements are passed
// even if it fails later.
func list[T any](ctx context.Context, c *client, path string, each func(T)) error {
	resp, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := decodeList(&bounded{resp.Body, maxAnswer}, each); err != nil {
		kind := resultAnswer
		if ctx.Err() != nil || isNetwork(err) {
			kind = resultUnreachable
		}
		return fail(kind, "cannot read %s of %s: %w", path, c.credentials.URL, plainly(err))
	}
	return nil
}

// get requests a path. The caller closes the body.
func (c *client) get(ctx context.Context, path string) (*http.Response, error) {
	return c.send(ctx, http.MethodGet, path, nil)
}

// send sends a request with a valid token, and with a new token after a 401. The caller
// closes the body.
func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	for retried := false; ; retried = true {
		if err := c.login(ctx); err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, method, c.address(path), bytes.NewReader(body))
		if err != nil {
			return nil, fail(resultCredentials, "cannot ask %s: %w", c.credentials.URL, plainly(err))
		}
		req.Header.Set("Authorization", "Bearer "+c.token.text)
		req.Header.Set("Accept", "application/json")
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, fail(resultUnreachable, "cannot reach %s: %w", c.credentials.URL, plainly(err))
		}
		if resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		discard(resp)
		if resp.StatusCode != http.StatusUnauthorized || retried {
			return nil, fail(kindOf(resp, resultRefused), "cannot %s %s: %s answers %s", strings.ToLower(method), path,
				c.credentials.URL, status(resp))
		}
		c.token = token{}
	}
}

// address keeps the path of the URL, such as behind a reverse proxy.
func (c *client) address(path string) string { return strings.TrimRight(c.credentials.URL, "/") + path }

// kindOf returns the result for a failed answer: a failure of Concourse itself, or
// otherwise.
func kindOf(resp *http.Response, otherwise result) result {
	if resp.StatusCode >= http.StatusInternalServerError {
		return resultFailing
	}
	return otherwise
}

// discard reads the few bytes that keep a connection usable, and closes the body.
func discard(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}

// status returns the code with its meaning, and the target of a redirect, which is usually
// the correct URL for the credentials file.
func status(resp *http.Response) string {
	s := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil {
		s += " to " + to.Scheme + "://" + clip(to.Host, 100) + "; set url to that"
	}
	return s
}

// plainly removes net/http's prefix `Get "http://...": ` from an error.
func plainly(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

func isNetwork(err error) bool {
	var n net.Error
	return errors.As(err, &n)
}

// clip returns the printable ASCII of a text from outside, up to n bytes.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(n, len(s))]
}

const (
	// renewBefore is the longest time before its end at which a token is replaced. For a
	// short token it is a tenth of its life.
	renewBefore = 5 * time.Minute
	// maxLife bounds the life that a token claims.
	maxLife = 30 * 24 * time.Hour
	// refusedPause is the time for which refused credentials are not tried again. Each try
	// costs the web a slow hash, and may lock an account of a directory.
	refusedPause = 5 * time.Minute
)

// token holds the result of a login. The zero token is none.
type token struct {
	text    string
	renew   time.Time // zero: never
	refused error     // the login was refused; not tried again before renew
}

func (t token) usable(now time.Time) bool {
	return (t.text != "" || t.refused != nil) && (t.renew.IsZero() || now.Before(t.renew))
}

// login ensures that there is a valid token.
func (c *client) login(ctx context.Context) error {
	if c.token.usable(c.now()) {
		return c.token.refused
	}
	c.token = token{}
	req, err := flylogin.Request(ctx, c.credentials.URL, c.credentials.Username, c.credentials.Password)
	if err != nil {
		return fail(resultCredentials, "cannot ask %s: %w", c.credentials.URL, plainly(err))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fail(resultUnreachable, "cannot reach %s: %w", c.credentials.URL, plainly(err))
	}
	defer discard(resp)
	if resp.StatusCode != http.StatusOK {
		err := fail(kindOf(resp, resultLogin), "cannot log in as %s: %s answers %s", c.credentials.Username,
			c.credentials.URL, status(resp))
		// 400 and 401 concern the user. Other failures may be temporary.
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusBadRequest {
			c.token = token{refused: err, renew: c.now().Add(refusedPause)}
		}
		return err
	}
	text, life, err := decodeToken(&bounded{resp.Body, maxToken})
	if err != nil {
		kind := resultAnswer
		if ctx.Err() != nil || isNetwork(err) {
			kind = resultUnreachable
		}
		return fail(kind, "cannot log in as %s at %s: %w", c.credentials.Username, c.credentials.URL, plainly(err))
	}
	c.token = token{text: text}
	if life > 0 {
		c.token.renew = c.now().Add(life - min(life/10, renewBefore))
	}
	return nil
}

// decodeToken decodes the answer to a login. life is 0 if it is not given.
func decodeToken(r io.Reader) (text string, life time.Duration, err error) {
	var answer struct {
		Token   string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires float64 `json:"expires_in"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return "", 0, decodeError(err)
	}
	if answer.Token == "" || clip(answer.Token, len(answer.Token)) != answer.Token ||
		strings.Contains(answer.Token, " ") {
		return "", 0, errors.New("the answer has no token")
	}
	if !strings.EqualFold(answer.Type, "bearer") {
		return "", 0, errors.New("the answer has a token of another kind than bearer")
	}
	if answer.Expires <= 0 {
		return answer.Token, 0, nil
	}
	return answer.Token, time.Duration(min(answer.Expires, maxLife.Seconds()) * float64(time.Second)), nil
}

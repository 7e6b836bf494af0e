package jobexporter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"concourse-ci-machine/internal/concourse/flylogin"
	"concourse-ci-machine/internal/concourse/jobexporter/login"
)

// result is what came of asking Concourse, as the label result tells it.
type result string

const (
	resultOK          result = "ok"
	resultCredentials result = "credentials" // the file cannot be used
	resultLogin       result = "login"       // Concourse refuses the user
	resultRefused     result = "refused"     // it refuses the request: 401 twice, 403, 3xx
	resultFailing     result = "failing"     // it fails at the request or the login, 5xx: mostly for want of its database
	resultUnreachable result = "unreachable" // no answer, or not in time
	resultAnswer      result = "answer"      // an answer that makes no sense
)

// failure is an error with its kind.
type failure struct {
	result result
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(r result, format string, args ...any) error {
	return &failure{r, fmt.Errorf(format, args...)}
}

// client talks to one Concourse as one user. It is used by one goroutine.
type client struct {
	credentials login.Credentials
	http        *http.Client
	now         func() time.Time
	token       token
}

// newClient trusts the PEM text ca alone, or the machine's own authorities where
// it is empty. It uses no proxy: the web is on this machine or beside it.
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

// list gets a list of the API and gives its elements to each, some of them also
// where it fails in the middle.
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

// get asks with a token that is good, and with a new one after a 401. The body
// is the caller's to close.
func (c *client) get(ctx context.Context, path string) (*http.Response, error) {
	for again := false; ; again = true {
		if err := c.login(ctx); err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(path), nil)
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
		if resp.StatusCode != http.StatusUnauthorized || again {
			return nil, fail(kindOf(resp, resultRefused), "cannot get %s: %s answers %s", path, c.credentials.URL, status(resp))
		}
		c.token = token{}
	}
}

// address keeps a path that the URL has, as behind a reverse proxy.
func (c *client) address(path string) string { return strings.TrimRight(c.credentials.URL, "/") + path }

// kindOf is what an answer without success is: Concourse's own trouble, or otherwise.
func kindOf(resp *http.Response, otherwise result) result {
	if resp.StatusCode >= http.StatusInternalServerError {
		return resultFailing
	}
	return otherwise
}

// discard reads the little that keeps a connection usable, and closes.
func discard(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}

// status is the code with its meaning, and where a redirect leads: that is most
// often the URL that should stand in the credentials file.
func status(resp *http.Response) string {
	s := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil {
		s += " to " + to.Scheme + "://" + clip(to.Host, 100) + "; set url to that"
	}
	return s
}

// plainly is the error without net/http's own `Get "http://...": ` before it.
func plainly(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
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

// clip is the printable ASCII of a text from outside, up to n bytes.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(n, len(s))]
}

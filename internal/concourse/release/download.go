package release

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

const (
	downloadDir = Dir + "/.download"
	// maxAttempts in one run, with 5 s and 10 s between them; what has come is
	// kept, so the next run goes on from there.
	maxAttempts = 3
	// downloadDeadline keeps a hook from holding the unit for ever. 900 MB in
	// 30 minutes is 0.5 MB/s.
	downloadDeadline = 30 * time.Minute
	// stallDeadline ends a connection on which nothing comes any more.
	stallDeadline = time.Minute
	// maxTarball bounds what a server can make us store; a release is 0.9 GB.
	maxTarball = 4 << 30
)

// lost is a failure of the network, which another attempt may mend.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// download brings the tarball to p. Whatever else was downloaded and not
// used is removed first.
func (r Install) download(ctx context.Context, h host.Host, p string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadDeadline)
	defer cancel()
	if err := r.forgetOthers(h.Root); err != nil {
		return err
	}
	if err := h.MkdirAll(downloadDir, 0o700); err != nil {
		return err
	}
	// Without a checksum the download would be of no use: find that out first.
	sum, _, err := r.wantSum(ctx, h)
	if err == nil {
		err = r.refusedBefore(h.Root, sum)
	}
	if err != nil {
		return err
	}
	u, err := r.url()
	if err != nil {
		return err
	}
	plan.Say(ctx, fmt.Sprintf("Downloading Concourse CI %s...", r.Version))
	part := p + ".part"
	if err := retry(ctx, h.Clock, u.Redacted(), func() error { return r.fetch(ctx, h.Root, u, part) }); err != nil {
		return err
	}
	if err := os.Rename(h.Path(part), h.Path(p)); err != nil {
		return err
	}
	if err := h.Remove(part + ".json"); err != nil {
		return err
	}
	return syncDir(h.Path(downloadDir))
}

// forgetOthers removes the downloads of other versions.
func (r Release) forgetOthers(root host.Root) error {
	found, err := root.Glob(downloadDir + "/*")
	if err != nil {
		return err
	}
	mine := downloadDir + "/" + r.name()
	for _, f := range found {
		switch f {
		case mine, mine + ".part", mine + ".part.json", mine + ".sha256", r.refusalFile():
		default:
			if err := os.RemoveAll(root.Path(f)); err != nil {
				return err
			}
		}
	}
	return nil
}

// retry does one piece of network work until it succeeds, fails for good, or
// has used up its attempts.
func retry(ctx context.Context, clock host.Clock, where string, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		var l lost
		if err == nil || !errors.As(err, &l) {
			return err
		}
		if n == maxAttempts || ctx.Err() != nil {
			return &NetworkError{URL: where, Attempts: n, Err: l.error}
		}
		plan.Say(ctx, fmt.Sprintf("Retrying download (attempt %d/%d)...", n+1, maxAttempts))
		clock.Sleep(time.Duration(n) * 5 * time.Second)
	}
}

// newClient goes through the proxies, never from https down to http, and has a
// deadline on everything but the body, which has its own.
func newClient(proxy resource.Proxies) *http.Client {
	t := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
		TLSHandshakeTimeout:   20 * time.Second,
		ResponseHeaderTimeout: stallDeadline,
		DisableCompression:    true, // a .tgz must come as it is stored
		ForceAttemptHTTP2:     true,
	}
	if proxy != (resource.Proxies{}) { // else none, whatever the environment has
		t.Proxy = proxy.Func()
	}
	return &http.Client{
		Transport: t,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 10:
				return errors.New("more than 10 redirects")
			case req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
				return errors.New("redirected from https to http")
			}
			return nil
		},
	}
}

// request asks for a URL. The caller closes the body.
func (r Install) request(ctx context.Context, u string, shown string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot download %s: not a URL", shown)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, lost{bare(err)}
	}
	switch s := resp.StatusCode; {
	case s == http.StatusOK || s == http.StatusPartialContent || s == http.StatusRequestedRangeNotSatisfiable:
		return resp, nil
	case s >= 400 && s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests && s != http.StatusTooEarly:
		err = &notThereError{URL: shown, Status: resp.Status}
	default:
		err = lost{fmt.Errorf("the server says %s", resp.Status)}
	}
	resp.Body.Close()
	return nil, err
}

// bare is the cause alone: a redirect's address may hold a token.
func bare(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(path.Clean(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

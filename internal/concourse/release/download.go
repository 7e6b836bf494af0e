package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

const (
	downloadDir = Dir + "/.download"
	// maxAttempts bounds the attempts in one run, with pauses of 5 s and 10 s. Received
	// data is kept, so the next run resumes.
	maxAttempts = 3
	// downloadDeadline prevents a hook from blocking the unit. 900 MB in 30 minutes is 0.5
	// MB/s.
	downloadDeadline = 30 * time.Minute
	// stallDeadline ends a connection that no longer delivers data.
	stallDeadline = time.Minute
	// maxTarball bounds the bytes that a server can make the charm store. A release has 0.9
	// GB.
	maxTarball = 4 << 30
)

// retryable marks a network failure that another attempt may fix.
type retryable struct{ error }

func (l retryable) Unwrap() error { return l.error }

// download downloads the tarball to p. It first removes unused downloads of other versions.
func (r Install) download(ctx context.Context, h host.Host, p string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadDeadline)
	defer cancel()
	if err := r.removeOtherDownloads(h.Root); err != nil {
		return err
	}
	if err := h.MkdirAll(downloadDir, 0o700); err != nil {
		return err
	}
	// A download without a checksum is useless, so the checksum comes first.
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
	plan.Report(ctx, fmt.Sprintf("Downloading Concourse CI %s...", r.Version))
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
	return resource.SyncDir(h.Path(downloadDir))
}

// removeOtherDownloads removes the downloads of other versions.
func (r Release) removeOtherDownloads(root host.Root) error {
	found, err := root.Glob(downloadDir + "/*")
	if err != nil {
		return err
	}
	mine := downloadDir + "/" + r.name()
	for _, f := range found {
		switch f {
		case mine, mine + ".part", mine + ".part.json", mine + ".sha256", r.refusalFile().Path:
		default:
			if err := os.RemoveAll(root.Path(f)); err != nil {
				return err
			}
		}
	}
	return nil
}

// retry calls do until it succeeds, fails permanently, or has used all attempts.
func retry(ctx context.Context, clock host.Clock, where string, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		var l retryable
		if err == nil || !errors.As(err, &l) {
			return err
		}
		if n == maxAttempts || ctx.Err() != nil {
			return &NetworkError{URL: where, Attempts: n, Err: l.error}
		}
		plan.Report(ctx, fmt.Sprintf("Retrying download (attempt %d/%d)...", n+1, maxAttempts))
		clock.Sleep(time.Duration(n) * 5 * time.Second)
	}
}

// newClient returns a client that uses the proxies and never redirects from https to http.
// It has deadlines on everything but the body, which has a separate one.
func newClient(proxy resource.Proxies) *http.Client {
	o := httpclient.Options{Redirect: httpclient.Follow, Header: stallDeadline, Raw: true} // a .tgz stays as it is
	if proxy != (resource.Proxies{}) {                                                     // otherwise no proxy, whatever the environment has
		o.Proxy = proxy.Func()
	}
	return httpclient.New(o)
}

// request sends a GET request. The caller closes the body.
func (r Install) request(ctx context.Context, u string, shown string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot download %s: not a URL", shown)
	}
	maps.Copy(req.Header, header)
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, retryable{bare(err)}
	}
	switch s := resp.StatusCode; {
	case s == http.StatusOK || s == http.StatusPartialContent || s == http.StatusRequestedRangeNotSatisfiable:
		return resp, nil
	case s >= 400 && s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests &&
		s != http.StatusTooEarly:
		err = &notThereError{URL: shown, Status: resp.Status}
	default:
		err = retryable{fmt.Errorf("the server returned %s", resp.Status)}
	}
	resp.Body.Close()
	return nil, err
}

// bare returns the cause alone, because the address of a redirect may contain a token.
func bare(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err
	}
	return err
}

// partial describes the source of a .part file. A download resumes only from the very same
// file (RFC 9110, 13.1.5 If-Range).
type partial struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // a strong ETag, otherwise Last-Modified
}

func partialFile(part string) statefile.File[partial] {
	return statefile.File[partial]{Path: part + ".json", Mode: 0o600, Disposable: true}
}

// fetch makes one attempt to complete the file part.
func (r Install) fetch(ctx context.Context, root host.Root, u *url.URL, part string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, header := resumeAt(root, u, part)
	resp, err := r.request(ctx, u.String(), u.Redacted(), header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	total := resp.ContentLength
	flags := os.O_WRONLY | os.O_CREATE
	switch resp.StatusCode {
	case http.StatusPartialContent:
		start, all, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || start != from {
			return errors.Join(retryable{fmt.Errorf("the server sent another range than was asked for")}, root.Remove(part))
		}
		total, flags = all, flags|os.O_APPEND
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(retryable{fmt.Errorf("the file on the server has changed")}, root.Remove(part))
	default:
		from, flags = 0, flags|os.O_TRUNC
		note := partial{URL: u.Redacted(), Validator: validator(resp.Header)}
		if err := partialFile(part).Write(root, note); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(root.Path(part), flags, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := r.receive(ctx, f, resp.Body, from, total, cancel)
	if err != nil {
		return err
	}
	if total >= 0 && have != total {
		return retryable{fmt.Errorf("the connection ended after %d of %d bytes", have, total)}
	}
	return f.Sync()
}

// receive copies the body. It reports every 5 %, and ends the request after stallDeadline
// without data.
func (r Install) receive(ctx context.Context, f io.Writer, body io.Reader, have, total int64, cancel func()) (int64,
	error) {
	after := r.after
	if after == nil {
		after = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	var stalled atomic.Bool
	buf, shown := make([]byte, 256<<10), int64(-1)
	for {
		stop := after(stallDeadline, func() { stalled.Store(true); cancel() })
		n, err := body.Read(buf)
		stop()
		if n > 0 {
			if have += int64(n); have > maxTarball {
				return have, fmt.Errorf("cannot download a release of more than %d bytes", int64(maxTarball))
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return have, err
			}
		}
		if total > 0 {
			if step := have * 100 / total / 5 * 5; step > shown {
				shown = step
				plan.Report(ctx, fmt.Sprintf("Downloading Concourse CI %s... %d%%", r.Version, step))
			}
		}
		switch {
		case err == io.EOF:
			return have, nil
		case err != nil && stalled.Load():
			return have, retryable{fmt.Errorf("the server sent no data for %s", stallDeadline)}
		case err != nil:
			return have, retryable{err}
		}
	}
}

// resumeAt returns the size of an earlier attempt's file, and the headers to resume it.
func resumeAt(root host.Root, u *url.URL, part string) (int64, http.Header) {
	note, err := partialFile(part).Read(root)
	if err != nil || note.URL != u.Redacted() || note.Validator == "" {
		return 0, nil
	}
	st, err := root.Lstat(part)
	if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return 0, nil
	}
	return st.Size(), http.Header{
		"Range":    {fmt.Sprintf("bytes=%d-", st.Size())},
		"If-Range": {note.Validator},
	}
}

// validator returns the value for If-Range, which must not be a weak ETag.
func validator(h http.Header) string {
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// contentRange parses "bytes 5-9/10" (RFC 9110, 14.4). An unknown total is -1.
func contentRange(s string) (start, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, ok2 := strings.Cut(s, "/")
	first, _, ok3 := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	if !ok || !ok2 || !ok3 || err != nil || start < 0 {
		return 0, 0, false
	}
	if size == "*" {
		return start, -1, true
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return start, total, err == nil && total > start
}

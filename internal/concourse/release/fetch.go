package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// partial says what a .part file is the beginning of: going on with it is
// right only for the very same file (RFC 9110, 13.1.5 If-Range).
type partial struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // a strong ETag, else Last-Modified
}

// fetch is one attempt to complete the file part.
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
			return errors.Join(lost{fmt.Errorf("the server sent another range than was asked for")}, root.Remove(part))
		}
		total, flags = all, flags|os.O_APPEND
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(lost{fmt.Errorf("the file on the server has changed")}, root.Remove(part))
	default:
		from, flags = 0, flags|os.O_TRUNC
		note, err := json.Marshal(partial{URL: u.Redacted(), Validator: validator(resp.Header)})
		if err != nil {
			return err
		}
		if err := root.WriteFile(part+".json", note, 0o600); err != nil {
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
		return lost{fmt.Errorf("the connection ended after %d of %d bytes", have, total)}
	}
	return f.Sync()
}

// receive copies the body, reporting every 5 % and ending the request when
// nothing comes for stallDeadline.
func (r Install) receive(ctx context.Context, f io.Writer, body io.Reader, have, total int64, cancel func()) (int64, error) {
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
				plan.Say(ctx, fmt.Sprintf("Downloading Concourse CI %s... %d%%", r.Version, step))
			}
		}
		switch {
		case err == io.EOF:
			return have, nil
		case err != nil && stalled.Load():
			return have, lost{fmt.Errorf("nothing came for %s", stallDeadline)}
		case err != nil:
			return have, lost{err}
		}
	}
}

// resumeAt looks at what an earlier attempt left.
func resumeAt(root host.Root, u *url.URL, part string) (int64, http.Header) {
	var note partial
	data, err := root.ReadFile(part + ".json")
	if err != nil || json.Unmarshal(data, &note) != nil || note.URL != u.Redacted() || note.Validator == "" {
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

// validator is what If-Range may carry: no weak ETag.
func validator(h http.Header) string {
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// contentRange reads "bytes 5-9/10" (RFC 9110, 14.4); an unknown total is -1.
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

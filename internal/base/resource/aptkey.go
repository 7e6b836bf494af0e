package resource

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// AptKey describes the key that signs an apt repository, in a separate keyring file: one
// OpenPGP public key, binary, mode 0644. It is fetched from URL and written only if it has
// the expected fingerprint. An existing file must have it too.
type AptKey struct {
	Path        string // /etc/apt/keyrings/<name>.gpg
	URL         string
	Fingerprint string // of the primary key, 40 hex digits
	Proxies     Proxies
	Tolerate    bool   // see plan.Step
	Remedy      string // what the operator can do if the key is another one; may be ""
}

// keyError reports a key that is not the expected one.
type keyError struct {
	From   string // a URL or path
	Reason string
	remedy string
}

func (e *keyError) Error() string {
	return fmt.Sprintf("cannot trust the key from %s: %s", e.From, e.Reason)
}

// Remedy returns the cause with a way to fix it.
func (e *keyError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("cannot trust the key from %s", e.From).
		Explain("%s", strings.TrimSuffix(e.Reason+"; "+e.remedy, "; "))
}

// Diff implements plan.Resource. It does not use the network.
func (k AptKey) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	op := "fetch apt key " + k.Path
	why, err := fileMode(h, k.Path, 0o644, "")
	if err != nil {
		return nil, err
	}
	if why == "" {
		have, err := h.ReadFile(k.Path)
		if err != nil {
			return nil, fmt.Errorf("cannot compare %s: %w", k.Path, err)
		}
		clean, err := k.check(k.Path, have)
		switch {
		case err != nil:
			op, why = "replace apt key "+k.Path, err.(*keyError).Reason
		case !bytes.Equal(clean, have):
			op, why = "replace apt key "+k.Path, "it is armored, which apt does not read under this name"
		default:
			return nil, nil
		}
	}
	return plan.Plan{{Op: op, Why: why, Tolerate: k.Tolerate, Do: func(ctx context.Context) error {
		data, err := fetch(ctx, k.URL, k.Proxies)
		if err != nil {
			return err
		}
		clean, err := k.check(RedactURL(k.URL), data)
		if err != nil {
			return err
		}
		return h.WriteFile(k.Path, clean, 0o644)
	}}}, nil
}

// check returns the key as binary. Its error is a *keyError.
func (k AptKey) check(from string, data []byte) ([]byte, error) {
	clean, got, err := parseKey(data)
	if err != nil {
		return nil, &keyError{from, err.Error(), k.Remedy}
	}
	if !strings.EqualFold(got, k.Fingerprint) {
		return nil, &keyError{from, fmt.Sprintf("its fingerprint is %s, want %s", got,
			strings.ToUpper(k.Fingerprint)), k.Remedy}
	}
	return clean, nil
}

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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	client := httpclient.New(httpclient.Options{Proxy: p.Func(), Redirect: httpclient.Follow, Timeout: fetchDeadline})
	resp, err := client.Do(req)
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

// RedactURL returns a URL without secrets, for logs.
func RedactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the configured URL"
	}
	return u.Redacted()
}

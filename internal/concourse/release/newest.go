package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

const (
	// newestAPI is GitHub's record of the newest release that is neither a draft nor a
	// pre-release (REST API, "Get the latest release").
	newestAPI = "https://api.github.com/repos/concourse/concourse/releases/latest"
	// NewestFile stores the last answer.
	NewestFile = wellknown.StateDir + "/newest.json"
	// newestEvery is the interval between requests to GitHub. Without a token, one address
	// has 60 requests an hour for all machines behind it.
	newestEvery = 6 * time.Hour
	// newestDeadline bounds the time that a hook spends on the request.
	newestDeadline = 10 * time.Second
)

// NewestQuery holds the input of a query of auto-upgrade.
type NewestQuery struct {
	Installed string // x.y.z; "" if no release is installed
	Arch      string // amd64, arm64: a release is valid if it has a tarball for it
	Token     string // option github-token, "" without
	Proxy     resource.Proxies
	Offline   bool // use only the last answer, for plans that are shown
	api       string
}

// newestAnswer holds the content of NewestFile. It never contains the token.
type newestAnswer struct {
	QueriedAt time.Time `json:"queried_at"`
	QueryHash string    `json:"query_hash"`        // hash of the query's inputs
	ETag      string    `json:"etag,omitempty"`    // of the answer with Version
	Version   string    `json:"version,omitempty"` // "" before the first answer
	Problem   string    `json:"problem,omitempty"` // of the last request
}

// Newest returns the version that auto-upgrade wants: the newest release with the installed
// major version, never an older one (D15). The version can always be used. GitHub gets at
// most one request in 6 hours, also after a failure, which is only a warning (D13). A new
// major version is a warning too: a rollback does not undo its migrations, so the operator
// decides (D14).
func Newest(ctx context.Context, h host.Host, q NewestQuery) (version, remark string) {
	have := cmp.Or(q.Installed, TestedVersion)
	a, _ := newestState.Read(h.Root) // an unreadable answer is requested again
	age := h.Now().Sub(a.QueriedAt)
	if !q.Offline && (age < 0 || age >= newestEvery || a.QueryHash != q.hash()) {
		a = q.ask(ctx, h, a)
	}
	if a.Problem != "" {
		remark = fmt.Sprintf("auto-upgrade stays at %s: %s", have, a.Problem)
	}
	switch {
	case CheckVersion(a.Version) != nil || compareVersions(a.Version, have) <= 0:
		return have, remark
	case major(a.Version) != major(have):
		return have, fmt.Sprintf("Concourse %s is there, a new major version: to take it set version=%s", a.Version,
			a.Version)
	}
	return a.Version, ""
}

var newestState = statefile.File[newestAnswer]{Path: NewestFile, Mode: 0o600, Disposable: true}

// ask records the request before it sends it, so that a killed run counts as a request.
func (q NewestQuery) ask(ctx context.Context, h host.Host, a newestAnswer) newestAnswer {
	if hash := q.hash(); hash != a.QueryHash {
		a.QueryHash, a.ETag = hash, ""
	}
	a.QueriedAt, a.Problem = h.Now().UTC(), "GitHub did not answer the last time"
	if err := writeNewest(h.Root, a); err != nil {
		// Without the record every hook would send a request.
		a.Problem = err.Error()
		return a
	}
	version, etag, err := q.fetch(ctx, a.ETag)
	switch {
	case err != nil:
		a.Problem = err.Error()
	case version == "": // not changed
		a.Problem = ""
	default:
		a.Version, a.ETag, a.Problem = version, etag, ""
	}
	if err := writeNewest(h.Root, a); err != nil {
		a.Problem = err.Error()
	}
	return a
}

func writeNewest(root host.Root, a newestAnswer) error {
	if err := newestState.Write(root, a); err != nil {
		return fmt.Errorf("cannot store the newest version: %w", err)
	}
	return nil
}

// fetch returns no version if the answer still has the etag.
func (q NewestQuery) fetch(ctx context.Context, etag string) (version, newTag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, newestDeadline)
	defer cancel()
	header := http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
	if q.Token != "" {
		header.Set("Authorization", "Bearer "+q.Token)
	}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cmp.Or(q.api, newestAPI), nil)
	if err != nil {
		return "", "", errors.New("cannot ask GitHub: not a URL")
	}
	req.Header = header
	resp, err := newClient(q.Proxy).Do(req)
	if err != nil {
		return "", "", fmt.Errorf("cannot ask GitHub: %w", bare(err))
	}
	defer resp.Body.Close()
	switch s := resp.StatusCode; {
	case s == http.StatusNotModified && etag != "":
		return "", "", nil
	case s == http.StatusUnauthorized:
		return "", "", errors.New((&tokenError{}).Remedy(wellknown.Commands{}).Text)
	case s == http.StatusForbidden || s == http.StatusTooManyRequests:
		return "", "", fmt.Errorf("GitHub returned %s; set github-token for more requests", resp.Status)
	case s != http.StatusOK:
		return "", "", fmt.Errorf("GitHub returned %s", resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSumAnswer))
	if err != nil {
		return "", "", fmt.Errorf("cannot ask GitHub: %w", bare(err))
	}
	version, err = parseNewest(data, q.Arch)
	return version, resp.Header.Get("Etag"), err
}

// parseNewest reads the version from GitHub's record of a release.
func parseNewest(data []byte, arch string) (string, error) {
	var latest struct {
		Tag    string `json:"tag_name"`
		Assets []struct {
			Name string `json:"name"`
		} `json:"assets"`
	}
	if json.Unmarshal(data, &latest) != nil {
		return "", errors.New("GitHub's answer is not a release")
	}
	version := strings.TrimPrefix(latest.Tag, "v")
	if CheckVersion(version) != nil {
		return "", errors.New("GitHub's answer names no version")
	}
	want := Release{Version: version, Arch: arch}.name()
	for _, a := range latest.Assets {
		if a.Name == want {
			return version, nil
		}
	}
	return "", fmt.Errorf("Concourse %s has no %s yet", version, want)
}

// tokenError reports a token that GitHub rejects.
type tokenError struct{}

func (*tokenError) Error() string { return "GitHub refuses github-token" }

// Remedy returns the error with a way to fix it.
func (e *tokenError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("%s; set another one, or none", e)
}

// hash returns a hash of the query's inputs. With a new token or proxy the next request
// need not wait.
func (q NewestQuery) hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", q.Token, q.Proxy, q.Arch, q.api))
	return fmt.Sprintf("%x", sum[:4])
}

func major(version string) string {
	m, _, _ := strings.Cut(version, ".")
	return m
}

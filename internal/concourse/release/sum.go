package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

var sumForm = lazyregexp.New(`^[0-9a-f]{64}$`)

// wantSum returns the expected SHA-256 of the tarball and its source: the operator, the
// table, the file <tarball>.sha256 beside it on a mirror, or GitHub's record for an
// upstream release. A fetched sum is stored, so that all steps compare with the same one.
func (r Install) wantSum(ctx context.Context, h host.Host) (sum, source string, err error) {
	if r.SHA256 != "" {
		return r.SHA256, "release-sha256", nil
	}
	if c, ok := r.fromTable(); ok {
		return c.SHA256, c.Source, nil
	}
	u, err := r.url()
	if err != nil {
		return "", "", err
	}
	where, asked, parse := u.Redacted()+".sha256", u.String()+".sha256", parseSum
	if r.Mirror == "" {
		asked = cmp.Or(r.api, upstreamAPI) + r.Version
		where, parse = asked, parseDigest
	}
	stored := downloadDir + "/" + r.name() + ".sha256"
	if data, err := h.ReadFile(stored); err == nil {
		if sum, ok := parseSum(data, r.name()); ok {
			return sum, where, nil
		}
	}
	err = retry(ctx, h.Clock, where, func() (err error) {
		sum, err = r.fetchSum(ctx, asked, where, parse)
		if missing := (*notThereError)(nil); r.Mirror == "" && errors.As(err, &missing) &&
			strings.HasPrefix(missing.Status, "403") {
			// GitHub reports an exceeded rate limit with 403.
			return retryable{fmt.Errorf("the server returned %s (GitHub allows 60 requests an hour; github-token "+
				"allows more, release-sha256 needs none)", missing.Status)}
		}
		return err
	})
	if missing, ok := errors.AsType[*notThereError](err); ok {
		if r.Mirror == "" && r.Token != "" && strings.HasPrefix(missing.Status, "401") {
			return "", "", &tokenError{}
		}
		return "", "", &noChecksumError{Version: r.Version, Arch: r.Arch, Name: r.name()}
	}
	if err != nil {
		return "", "", err
	}
	return sum, where, h.WriteFile(stored, []byte(sum+"\n"), 0o600)
}

// Unauthenticated reports whether the checksum comes only from an unencrypted mirror. An
// attacker on the network can then change both tarball and sum.
func (r Release) Unauthenticated() bool {
	u, err := r.url()
	if err != nil || u.Scheme != "http" || r.SHA256 != "" {
		return false
	}
	_, known := r.fromTable()
	return !known
}

func (r Release) fromTable() (checksum, bool) {
	table := r.table
	if table == nil {
		table = checksums()
	}
	return knownSum(table, r.Version, r.Arch)
}

func (r Install) fetchSum(ctx context.Context, asked, where string,
	parse func(data []byte, name string) (string, bool)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stallDeadline)
	defer cancel()
	var header http.Header
	if r.Mirror == "" && r.Token != "" {
		header = http.Header{"Authorization": {"Bearer " + r.Token}}
	}
	resp, err := r.request(ctx, asked, where, header)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", retryable{fmt.Errorf("the server returned %s", resp.Status)}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSumAnswer))
	if err != nil {
		return "", retryable{err}
	}
	sum, ok := parse(data, r.name())
	if !ok {
		// Sign-in pages also come with 200.
		return "", &notThereError{URL: where, Status: "an answer without a SHA-256"}
	}
	return sum, nil
}

// parseSum parses the output of sha256sum: the "<sum> <name>" line with this name, or a
// bare sum.
func parseSum(data []byte, name string) (string, bool) {
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 0 || len(f) > 2 || !sumForm().MatchString(strings.ToLower(f[0])) {
			continue
		}
		if len(f) == 1 || strings.TrimLeft(f[1], "*./") == name {
			return strings.ToLower(f[0]), true
		}
	}
	return "", false
}

// verify compares the tarball with its sum. A tarball that does not match is removed with
// the sum, so that the next run starts again.
func (r Install) verify(ctx context.Context, h host.Host, tarball string) (string, error) {
	want, source, err := r.wantSum(ctx, h)
	if err != nil {
		return "", err
	}
	got, err := hashFile(h.Path(tarball))
	if err != nil {
		return "", err
	}
	if got != want {
		bad := &checksumError{Path: r.name(), Want: want, Got: got, Source: source}
		return "", errors.Join(bad, h.Remove(tarball), h.Remove(tarball+".sha256"))
	}
	return got, nil
}

// checksum holds one row of the table of releases with a known SHA-256.
type checksum struct {
	Version string // x.y.z
	Arch    string // amd64, arm64
	SHA256  string // of concourse-<version>-linux-<arch>.tgz, lower-case hex
	Source  string // publisher of the sum, or its author and source file
}

// checksums returns the table. A row needs the SHA-256 of the tarball itself. Concourse
// publishes only SHA-1 sums, which are not accepted, and the sums of Linux distributions
// are of the unpacked tree. The table is still empty: the sum comes from release-sha256, a
// <tarball>.sha256 or GitHub's record.
func checksums() []checksum { return nil }

func knownSum(table []checksum, version, arch string) (checksum, bool) {
	for _, c := range table {
		if c.Version == version && c.Arch == arch {
			return c, true
		}
	}
	return checksum{}, false
}

// upstreamAPI is the URL of GitHub's record of an upstream release. GitHub computes the
// SHA-256 of each asset at its upload and reports it as "digest" (GitHub REST API, "Get a
// release by tag name"; since June 2025). Upstream itself publishes only a SHA-1.
const upstreamAPI = "https://api.github.com/repos/concourse/concourse/releases/tags/v"

// maxSumAnswer bounds the answer with a checksum. A release of 60 assets has about 150 kB
// of JSON.
const maxSumAnswer = 4 << 20

// parseDigest returns the digest of the asset with that name.
func parseDigest(data []byte, name string) (string, bool) {
	var release struct {
		Assets []struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		} `json:"assets"`
	}
	if json.Unmarshal(data, &release) != nil {
		return "", false
	}
	for _, a := range release.Assets {
		sum, ok := strings.CutPrefix(strings.ToLower(a.Digest), "sha256:")
		if a.Name == name && ok && sumForm().MatchString(sum) {
			return sum, true
		}
	}
	return "", false
}

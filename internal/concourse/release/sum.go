package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

var sumForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// wantSum is the SHA-256 that the tarball has to have, and who says so: the
// operator, the table, the file <tarball>.sha256 beside it on a mirror, or for
// an upstream release GitHub's own record of it. What was fetched is kept, so
// that all steps hold the tarball against the same sum.
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
	kept := downloadDir + "/" + r.name() + ".sha256"
	if data, err := h.ReadFile(kept); err == nil {
		if sum, ok := parseSum(data, r.name()); ok {
			return sum, where, nil
		}
	}
	err = retry(ctx, h.Clock, where, func() (err error) {
		sum, err = r.fetchSum(ctx, asked, where, parse)
		if gone := (*notThereError)(nil); r.Mirror == "" && errors.As(err, &gone) && strings.HasPrefix(gone.Status, "403") {
			// How GitHub says that this address has asked too often in the last hour.
			return lost{fmt.Errorf("the server says %s (GitHub allows 60 questions an hour; github-token allows more, release-sha256 needs none)", gone.Status)}
		}
		return err
	})
	var gone *notThereError
	if errors.As(err, &gone) {
		if r.Mirror == "" && r.Token != "" && strings.HasPrefix(gone.Status, "401") {
			return "", "", &tokenError{}
		}
		return "", "", &noChecksumError{Version: r.Version, Arch: r.Arch, Name: r.name()}
	}
	if err != nil {
		return "", "", err
	}
	return sum, where, h.WriteFile(kept, []byte(sum+"\n"), 0o600)
}

// Unauthenticated reports whether nothing but a mirror without encryption says
// what the tarball has to be: whoever is on the way can change both.
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

func (r Install) fetchSum(ctx context.Context, asked, where string, parse func(data []byte, name string) (string, bool)) (string, error) {
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
		return "", lost{fmt.Errorf("the server says %s", resp.Status)}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSumAnswer))
	if err != nil {
		return "", lost{err}
	}
	sum, ok := parse(data, r.name())
	if !ok {
		// Sign-in pages and the like come with 200 too.
		return "", &notThereError{URL: where, Status: "something that is no SHA-256"}
	}
	return sum, nil
}

// parseSum reads what sha256sum prints: "<sum>  <name>" lines, of which the
// one of this name counts, or a bare sum.
func parseSum(data []byte, name string) (string, bool) {
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 0 || len(f) > 2 || !sumForm.MatchString(strings.ToLower(f[0])) {
			continue
		}
		if len(f) == 1 || strings.TrimLeft(f[1], "*./") == name {
			return strings.ToLower(f[0]), true
		}
	}
	return "", false
}

// verify compares the tarball with its sum. One that does not match is thrown
// away together with the sum, so that the next run starts afresh.
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

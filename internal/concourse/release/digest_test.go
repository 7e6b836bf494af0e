package release

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/testutil/resourcetest"
)

func upstreamOf(m *mirror) Install {
	r := m.from("8.2.5")
	r.Mirror, r.upstream, r.api = "", m.URL, m.URL+"/api/v"
	return r
}

func githubSays(m *mirror, name, digest string) {
	m.files["/api/v8.2.5"] = fmt.Appendf(nil, `{"tag_name":"v8.2.5","assets":[
		{"name":"fly-8.2.5-linux-amd64.tgz","digest":"sha256:%s"},{"name":%q,"digest":%q}]}`, sumOf([]byte("fly")), name, digest)
}

// A deployment that names no checksum gets an upstream release all the same,
// held against what GitHub recorded when it was uploaded (D36).
func TestUpstreamReleaseIsHeldAgainstGitHubsDigest_D36(t *testing.T) {
	h, m := machine(t), newMirror(t)
	good := tarball(t, releaseEntries("8.2.5")...)
	m.put("8.2.5", good, false)
	githubSays(m, name825, "sha256:"+sumOf(good))
	require.NoError(t, resourcetest.Apply(t, h, upstreamOf(m)))
	version, _, ok := Installed(h.Root)
	require.True(t, ok)
	require.Equal(t, "8.2.5", version)
	require.Empty(t, resourcetest.Ops(t, h, upstreamOf(m)))
}

func TestUpstreamReleaseThatIsNotGitHubsIsNotUnpacked_D36(t *testing.T) {
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), false)
	githubSays(m, name825, "sha256:"+sumOf([]byte("another")))
	var bad *checksumError
	require.ErrorAs(t, resourcetest.Apply(t, h, upstreamOf(m)), &bad)
}

func TestUpstreamReleaseWithoutADigestIsRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"older than digests": `{"assets":[{"name":"` + name825 + `","digest":null}]}`,
		"another asset only": `{"assets":[{"name":"fly.tgz","digest":"sha256:` + sumOf(nil) + `"}]}`,
		"a page":             `<html>`,
		"a sha1":             `{"assets":[{"name":"` + name825 + `","digest":"sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"}]}`,
	} {
		h, m := machine(t), newMirror(t)
		m.files["/api/v8.2.5"] = []byte(answer)
		var none *noChecksumError
		require.ErrorAs(t, resourcetest.Apply(t, h, upstreamOf(m)), &none, name)
	}
}

// GitHub's limit passes by itself, so it is no reason to ask the operator.
func TestTooManyQuestionsToGitHubAreTriedAgain(t *testing.T) {
	h := machine(t)
	limited := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "API rate limit exceeded", http.StatusForbidden)
	}))
	t.Cleanup(limited.Close)
	r := Install{Release: Release{Version: "8.2.5", Arch: "amd64", upstream: limited.URL, api: limited.URL + "/api/v"}}
	var network *NetworkError
	err := resourcetest.Apply(t, h, r)
	require.ErrorAs(t, err, &network)
	require.ErrorContains(t, err, "403")
	require.True(t, network.Temporary())
}

// The token is for GitHub's API, and for nobody else.
func TestTokenGoesToTheAPIAlone(t *testing.T) {
	good := tarball(t, releaseEntries("8.2.5")...)
	m := newMirror(t)
	m.put("8.2.5", good, true)
	githubSays(m, name825, "sha256:"+sumOf(good))
	var with []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth := r.Header.Get("Authorization"); auth != "" {
			with = append(with, r.URL.Path+" "+auth)
		}
		m.serve(w, r)
	}))
	defer s.Close()
	require.NoError(t, resourcetest.Apply(t, machine(t), Install{Release: Release{Version: "8.2.5", Arch: "amd64", Token: "a", upstream: s.URL, api: s.URL + "/api/v"}}))
	require.NoError(t, resourcetest.Apply(t, machine(t), Install{Release: Release{Version: "8.2.5", Arch: "amd64", Token: "a", Mirror: s.URL}}))
	require.Equal(t, []string{"/api/v8.2.5 Bearer a"}, with)
}

func TestTokenThatIsRefusedIsNamed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Bad credentials", http.StatusUnauthorized)
	}))
	defer s.Close()
	err := resourcetest.Apply(t, machine(t), Install{Release: Release{Version: "8.2.5", Arch: "amd64", Token: "geheim", upstream: s.URL, api: s.URL + "/api/v"}})
	var refused *tokenError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "GitHub refuses github-token; set another one, or none", refused.Remedy())
	require.NotContains(t, err.Error(), "geheim")
}

func FuzzParseDigest(f *testing.F) {
	f.Add([]byte(`{"assets":[{"name":"x","digest":"sha256:` + sumOf(nil) + `"}]}`))
	f.Add([]byte(`{"assets":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sum, ok := parseDigest(data, "x"); ok {
			require.Regexp(t, sumForm, sum)
		}
	})
}

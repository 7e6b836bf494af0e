package release

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// D36: nothing is unpacked without a known SHA-256; the text names the option to set. It is
// found out before 900 MB are downloaded.
func TestReleaseWithoutChecksumIsRefused_D36(t *testing.T) {
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), false)
	m.files["/v8.2.5/"+name825+".sha1"] = []byte("da39a3ee5e6b4b0d3255bfef95601890afd80709")
	r := m.from("8.2.5")
	err := resourcetest.Apply(t, h, r)
	var none *noChecksumError
	require.ErrorAs(t, err, &none)
	require.Equal(t, "no SHA-256 of Concourse 8.2.5 for amd64 is known: set release-sha256: its value is the first word that `sha256sum "+name825+"` prints for a copy that you trust; instead you can put "+name825+".sha256 beside the tarball on release-mirror", none.Remedy(wellknown.Commands{}).String())
	require.Equal(t, []string{name825 + ".sha256"}, m.asked)
}

// D36: a tarball with another sum is not unpacked, and is removed with the
// sum, so that a corrected mirror is enough.
func TestReleaseWithAWrongSumIsNotUnpacked_D36(t *testing.T) {
	good := tarball(t, releaseEntries("8.2.5")...)
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", good, true)
	m.files["/v8.2.5/"+name825] = append([]byte{}, good[:len(good)-1]...)
	r := m.from("8.2.5")
	err := resourcetest.Apply(t, h, r)
	var bad *checksumError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, sumOf(good), bad.Want)
	found, gerr := h.Glob(Dir + "/*")
	require.NoError(t, gerr)
	require.Equal(t, []string{downloadDir}, found)
	m.put("8.2.5", good, true)
	require.NoError(t, resourcetest.Apply(t, h, r))
}

func TestChecksumComesFromTheOptionThenTheTableThenTheSidecar(t *testing.T) {
	good := tarball(t, releaseEntries("8.2.5")...)
	row := []checksum{{Version: "8.2.5", Arch: "amd64", SHA256: sumOf(good), Source: "the table"}}
	wrong := []checksum{{Version: "8.2.5", Arch: "amd64", SHA256: sumOf([]byte("x")), Source: "the table"}}
	for name, tc := range map[string]struct {
		option  string
		table   []checksum
		sidecar bool
		asks    bool
	}{
		"option":         {option: sumOf(good), table: wrong},
		"table":          {table: row},
		"sidecar":        {sidecar: true, asks: true},
		"option, not it": {option: sumOf(good), sidecar: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, m := machine(t), newMirror(t)
			m.put("8.2.5", good, tc.sidecar)
			r := m.from("8.2.5")
			r.SHA256, r.table = tc.option, tc.table
			require.NoError(t, resourcetest.Apply(t, h, r))
			require.Equal(t, tc.asks, m.asked[0] == name825+".sha256")
			require.Empty(t, resourcetest.Ops(t, h, r))
		})
	}
}

// A release that was installed without the option is the same one with it,
// if the sum is the same; if not, it is replaced.
func TestChecksumOptionSetLaterHoldsForTheInstalledRelease(t *testing.T) {
	h, m := machine(t), newMirror(t)
	first, second := tarball(t, releaseEntries("8.2.5")...), bigRelease(t, "8.2.5")
	m.put("8.2.5", first, true)
	r := m.from("8.2.5")
	require.NoError(t, resourcetest.Apply(t, h, r))
	r.SHA256 = sumOf(first)
	require.Empty(t, resourcetest.Ops(t, h, r))
	r.SHA256 = sumOf(second)
	m.put("8.2.5", second, false)
	require.NoError(t, resourcetest.Apply(t, h, r))
	_, id, _ := Installed(h.Root)
	require.Equal(t, "8.2.5-"+sumOf(second)[:12], id)
	require.Empty(t, resourcetest.Ops(t, h, r))
}

func TestParseSum(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for in, want := range map[string]string{
		sum:                                     sum,
		strings.ToUpper(sum) + "\n":             sum,
		sum + "  a.tgz\n":                       sum,
		sum + " *a.tgz\r\n":                     sum,
		sum + "  ./a.tgz\n":                     sum,
		sum[1:] + "0  b.tgz\n" + sum + " a.tgz": sum,
		sum + "  b.tgz\n":                       "",
		sum[:40] + "  a.tgz\n":                  "", // SHA-1
		"<html>Sign in</html>":                  "",
		"":                                      "",
	} {
		got, ok := parseSum([]byte(in), "a.tgz")
		require.Equal(t, want, got, in)
		require.Equal(t, want != "", ok, in)
	}
}

func FuzzParseSum(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + "  a.tgz\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sum, ok := parseSum(data, "a.tgz"); ok != sumForm().MatchString(sum) {
			t.Fatal(sum, ok)
		}
	})
}

// D36: a checksum that can't be fetched costs no second download of the
// release, and gets nothing unpacked.
func TestChecksumThatIsAwayKeepsTheDownload_D36(t *testing.T) {
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	sidecar := "/v8.2.5/" + name825 + ".sha256"
	sum := m.files[sidecar]
	r := m.from("8.2.5")
	applied(t, planned(t, h, r)[:1])
	require.NoError(t, h.Remove(downloadDir+"/"+name825+".sha256"))
	delete(m.files, sidecar)
	for range 2 {
		next := m.from("8.2.5")
		require.Error(t, resourcetest.Apply(t, h, next))
		require.False(t, h.Exists(Dir+"/8.2.5"))
	}
	m.files[sidecar] = sum
	next := m.from("8.2.5")
	require.NoError(t, resourcetest.Apply(t, h, next))
	require.Equal(t, 1, tarballs(m))
}

// D36: with shared storage as well.
func TestSharedReleaseIsVerified_D36(t *testing.T) {
	a, _ := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	m.files["/v8.2.5/"+name825] = bigRelease(t, "8.2.5")
	var bad *checksumError
	require.ErrorAs(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")), &bad)
	found, err := a.Glob(Dir + "/*")
	require.NoError(t, err)
	require.Equal(t, []string{downloadDir}, found)
	left, err := a.Glob(downloadDir + "/*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// A checksum from the tarball's own server protects against nothing.
func TestPlainHTTPMirrorIsUnauthenticated(t *testing.T) {
	sum := sumOf(nil)
	for name, tc := range map[string]struct {
		r    Release
		want bool
	}{
		"http":                    {Release{Mirror: "http://mirror.example/concourse"}, true},
		"HTTP":                    {Release{Mirror: "HTTP://mirror.example"}, true},
		"https":                   {Release{Mirror: "https://mirror.example"}, false},
		"upstream":                {Release{}, false},
		"with release-sha256":     {Release{Mirror: "http://mirror.example", SHA256: sum}, false},
		"in the table":            {Release{Mirror: "http://mirror.example", table: []checksum{{"8.2.5", "amd64", sum, "here"}}}, false},
		"in the table, not these": {Release{Mirror: "http://mirror.example", table: []checksum{{"8.2.4", "amd64", sum, "here"}}}, true},
	} {
		tc.r.Version, tc.r.Arch = "8.2.5", "amd64"
		require.Equal(t, tc.want, tc.r.Unauthenticated(), name)
	}
}

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

func TestUpstreamReleaseWithAnotherDigestIsNotUnpacked_D36(t *testing.T) {
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

// The token is for GitHub's API, and for no other program.
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
	require.Equal(t, "GitHub refuses github-token; set another one, or none", refused.Remedy(wellknown.Commands{}).String())
	require.NotContains(t, err.Error(), "geheim")
}

func FuzzParseDigest(f *testing.F) {
	f.Add([]byte(`{"assets":[{"name":"x","digest":"sha256:` + sumOf(nil) + `"}]}`))
	f.Add([]byte(`{"assets":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sum, ok := parseDigest(data, "x"); ok {
			require.Regexp(t, sumForm(), sum)
		}
	})
}

package release

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// github is a stand-in for GitHub's API.
type github struct {
	*httptest.Server
	latest string
	status int
	asked  []http.Header
	before func() // called before it answers
}

func newGithub(t testing.TB, latest string) *github {
	g := &github{latest: latest}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked = append(g.asked, r.Header)
		if g.before != nil {
			g.before()
		}
		tag := `"` + g.latest + `"`
		w.Header().Set("Etag", tag)
		switch {
		case g.status != 0:
			w.WriteHeader(g.status)
		case r.Header.Get("If-None-Match") == tag:
			w.WriteHeader(http.StatusNotModified)
		default:
			fmt.Fprint(w, latestJSON(g.latest))
		}
	}))
	t.Cleanup(g.Close)
	return g
}

func latestJSON(version string) string {
	return fmt.Sprintf(`{"tag_name":"v%s","assets":[{"name":"concourse-%s-linux-amd64.tgz"},{"name":"fly-%s-linux-arm64.tgz"}]}`, version, version, version)
}

func (g *github) query(installed string) NewestQuery {
	return NewestQuery{Installed: installed, Arch: "amd64", api: g.URL}
}

func later(h host.Host, d time.Duration) host.Host {
	h.Clock = hosttest.Clock{T: hosttest.Now.Add(d)}
	return h
}

// D13: GitHub is asked once in six hours, however many hooks run, with the tag
// of its last answer.
func TestNewestAsksOnceInSixHours_D13(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	for after, asked := range []int{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3} {
		version, remark := Newest(t.Context(), later(h, time.Duration(after)*time.Hour), g.query("8.2.5"))
		require.Equal(t, "8.2.6", version)
		require.Empty(t, remark)
		require.Len(t, g.asked, asked, "after %d hours", after)
	}
	require.Empty(t, g.asked[0].Get("If-None-Match"))
	require.Equal(t, `"8.2.6"`, g.asked[1].Get("If-None-Match"))
	require.Equal(t, `"8.2.6"`, g.asked[2].Get("If-None-Match"), "also after an answer without content")
	require.Empty(t, g.asked[0].Get("Authorization"))

	g.latest = "8.2.7"
	version, _ := Newest(t.Context(), later(h, 18*time.Hour), g.query("8.2.6"))
	require.Equal(t, "8.2.7", version)
	version, _ = Newest(t.Context(), later(h, -time.Hour), g.query("8.2.6"))
	require.Equal(t, "8.2.7", version)
	require.Len(t, g.asked, 5, "a clock that was wrong does not stop it for good")
}

// D13: whatever goes wrong, there is a version to run and a remark.
func TestNewestThatFailsKeepsWhatIsInstalled_D13(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusForbidden:           "auto-upgrade stays at 8.2.5: GitHub returned 403 Forbidden; set github-token for more requests",
		http.StatusTooManyRequests:     "auto-upgrade stays at 8.2.5: GitHub returned 429 Too Many Requests; set github-token for more requests",
		http.StatusUnauthorized:        "auto-upgrade stays at 8.2.5: GitHub refuses github-token; set another one, or none",
		http.StatusInternalServerError: "auto-upgrade stays at 8.2.5: GitHub returned 500 Internal Server Error",
		http.StatusNotModified:         "auto-upgrade stays at 8.2.5: GitHub returned 304 Not Modified",
		http.StatusNoContent:           "auto-upgrade stays at 8.2.5: GitHub returned 204 No Content",
	} {
		h, g := machine(t), newGithub(t, "8.2.6")
		g.status = status
		for range 3 {
			version, remark := Newest(t.Context(), h, g.query("8.2.5"))
			require.Equal(t, "8.2.5", version)
			require.Equal(t, want, remark)
		}
		require.Len(t, g.asked, 1, "a failure is not repeated in every hook")
		g.status = 0
		version, remark := Newest(t.Context(), later(h, 6*time.Hour), g.query("8.2.5"))
		require.Equal(t, "8.2.6", version)
		require.Empty(t, remark)
	}
}

func TestNewestWithoutANetworkIsARemark_D13(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	g.Close()
	q := g.query("")
	q.Token, q.Proxy = "geheim", resource.Proxies{HTTP: "http://user:geheim@127.0.0.1:1"}
	version, remark := Newest(t.Context(), h, q)
	require.Equal(t, TestedVersion, version)
	require.Contains(t, remark, "auto-upgrade stays at "+TestedVersion+": cannot ask GitHub: ")
	require.NotContains(t, remark, "geheim")
	data, err := h.ReadText(NewestFile)
	require.NoError(t, err)
	require.NotContains(t, data, "geheim")
	st, err := h.Stat(NewestFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())

	h = machine(t) // and without a place for the answer
	hosttest.Put(t, h.Root, wellknown.StateDir, "a file")
	version, remark = Newest(t.Context(), h, q)
	require.Equal(t, TestedVersion, version)
	require.Contains(t, remark, "cannot store the newest version")
}

// What is known already is used while GitHub is away.
func TestNewestThatIsKnownOutlivesAFailure(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	Newest(t.Context(), h, g.query("8.2.5"))
	g.status = http.StatusForbidden
	version, remark := Newest(t.Context(), later(h, 7*time.Hour), g.query("8.2.5"))
	require.Equal(t, "8.2.6", version)
	require.Empty(t, remark)
	require.Len(t, g.asked, 2)
}

// D14: a new major version is named and not taken.
func TestNewestSkipsANewMajorVersion_D14(t *testing.T) {
	h, g := machine(t), newGithub(t, "9.0.0")
	version, remark := Newest(t.Context(), h, g.query("8.2.5"))
	require.Equal(t, "8.2.5", version)
	require.Equal(t, "Concourse 9.0.0 is there, a new major version: to take it set version=9.0.0", remark)
	version, remark = Newest(t.Context(), h, g.query("9.0.0"))
	require.Equal(t, "9.0.0", version)
	require.Empty(t, remark)
}

// D15: an older release is not an upgrade, and nothing but a version passes.
func TestNewestNeverGoesBack_D15(t *testing.T) {
	for latest, installed := range map[string]string{"8.2.4": "8.2.5", "7.14.3": "8.2.5", "8.9.0": "8.10.0", "8.2.5": "8.2.5"} {
		h, g := machine(t), newGithub(t, latest)
		version, remark := Newest(t.Context(), h, g.query(installed))
		require.Equal(t, installed, version)
		require.Empty(t, remark)
	}
	for _, latest := range []string{"latest", "8.3.0-rc.1", "../../x", ""} {
		h, g := machine(t), newGithub(t, latest)
		version, remark := Newest(t.Context(), h, g.query("8.2.5"))
		require.Equal(t, "8.2.5", version)
		require.Equal(t, "auto-upgrade stays at 8.2.5: GitHub's answer names no version", remark)
	}
	h := machine(t)
	hosttest.Put(t, h.Root, NewestFile, `{"queried_at":"`+hosttest.Now.Format(time.RFC3339)+`","version":"latest"}`)
	version, _ := Newest(t.Context(), h, NewestQuery{Installed: "8.2.5", Offline: true})
	require.Equal(t, "8.2.5", version)
}

func TestNewestWaitsForTheTarball(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	q := g.query("8.2.5")
	q.Arch = "arm64"
	version, remark := Newest(t.Context(), h, q)
	require.Equal(t, "8.2.5", version)
	require.Equal(t, "auto-upgrade stays at 8.2.5: Concourse 8.2.6 has no concourse-8.2.6-linux-arm64.tgz yet", remark)
}

func TestNewestIsAskedAgainWithAnotherToken(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	g.status = http.StatusForbidden
	Newest(t.Context(), h, g.query("8.2.5"))
	g.status = 0
	q := g.query("8.2.5")
	q.Token = "a token"
	version, _ := Newest(t.Context(), h, q)
	require.Equal(t, "8.2.6", version)
	require.Equal(t, "Bearer a token", g.asked[1].Get("Authorization"))
}

// A run that is killed while it asks has asked: the note is written before.
func TestNewestThatIsKilledHasAsked_D13(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	var kept string
	g.before = func() { kept, _ = h.ReadText(NewestFile) }
	Newest(t.Context(), h, g.query("8.2.5"))
	hosttest.Put(t, h.Root, NewestFile, kept) // as it was then
	version, remark := Newest(t.Context(), h, g.query("8.2.5"))
	require.Equal(t, "8.2.5", version)
	require.Equal(t, "auto-upgrade stays at 8.2.5: GitHub did not answer the last time", remark)
	require.Len(t, g.asked, 1)
}

func TestNewestOfflineSendsNoRequest(t *testing.T) {
	h, g := machine(t), newGithub(t, "8.2.6")
	q := g.query("8.2.5")
	q.Offline = true
	version, remark := Newest(t.Context(), h, q)
	require.Equal(t, "8.2.5", version)
	require.Empty(t, remark)
	require.Empty(t, g.asked)
	require.False(t, h.Exists(NewestFile))
}

func FuzzParseNewest(f *testing.F) {
	f.Add([]byte(latestJSON("8.2.6")))
	f.Add([]byte(`{"tag_name":"latest"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		version, err := parseNewest(data, "amd64")
		if err == nil && CheckVersion(version) != nil {
			t.Fatal(version)
		}
	})
}

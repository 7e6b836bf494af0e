package httpclient

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedirectionsAreFollowedOnlyByThoseWhoAllowThem(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked += r.URL.Path
		if r.URL.Path != "/there" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer s.Close()
	for name, c := range map[string]struct {
		client *http.Client
		asked  string
		status int
	}{
		"local":  {Local(), "/", http.StatusFound},
		"follow": {New(Options{Redirect: Follow}), "//there", http.StatusOK},
	} {
		asked = ""
		resp, err := c.client.Get(s.URL + "/")
		require.NoError(t, err, name)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, name)
		require.Equal(t, c.asked, asked, name)
	}
}

func TestFollowStaysWithHTTPSAndEnds(t *testing.T) {
	at := func(address string) *http.Request {
		u, err := url.Parse(address)
		require.NoError(t, err)
		return &http.Request{URL: u}
	}
	secure, plain := at("https://a"), at("http://a")
	for name, c := range map[string]struct {
		to   *http.Request
		via  []*http.Request
		want string
	}{
		"secure to secure": {secure, []*http.Request{secure}, ""},
		"plain to plain":   {plain, []*http.Request{plain}, ""},
		"plain to secure":  {secure, []*http.Request{plain}, ""},
		"secure to plain":  {plain, []*http.Request{secure, secure}, "redirected from https to http"},
		"nine before":      {plain, make9(plain), ""},
		"ten before":       {plain, append(make9(plain), plain), "more than 10 redirects"},
	} {
		err := Follow(c.to, c.via)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, c.want, name)
	}
}

// make9 returns nine requests.
func make9(r *http.Request) []*http.Request {
	return []*http.Request{r, r, r, r, r, r, r, r, r}
}

func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	require.Nil(t, Local().Transport.(*http.Transport).Proxy)
	require.NotZero(t, Local().Timeout)
}

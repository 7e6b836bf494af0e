package concourse

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProxyIsChosenAsCurlDoes(t *testing.T) {
	p := Proxy{HTTP: "http://plain:1", HTTPS: "http://secure:2"}
	for _, tc := range []struct{ no, url, want string }{
		{"", "http://a.example/x", "plain:1"},
		{"", "https://a.example/x", "secure:2"},
		{"", "http://localhost/x", ""},
		{"", "http://127.0.0.1:8888/", ""},
		{"", "http://[::1]/", ""},
		{"a.example", "http://a.example/", ""},
		{"a.example", "http://b.a.example/", ""},
		{".a.example", "http://b.a.example/", ""},
		{"*.a.example", "http://b.a.example/", ""},
		{"a.example", "http://ba.example/", "plain:1"},
		{"A.Example", "http://a.example./", ""},
		{"x, a.example", "http://a.example/", ""},
		{"a.example:81", "http://a.example/", "plain:1"},
		{"a.example:80", "http://a.example/", ""},
		{"10.0.0.0/8", "http://10.1.2.3/", ""},
		{"10.0.0.0/8", "http://11.1.2.3/", "plain:1"},
		{"10.1.2.3", "http://10.1.2.3/", ""},
		{"fd00::/8", "http://[fd00::1]/", ""},
		{"fd00::1", "http://[fd00::1]/", ""},
		{"*", "https://a.example/", ""},
		{",", "https://a.example/", "secure:2"},
	} {
		p.No = tc.no
		u, err := url.Parse(tc.url)
		require.NoError(t, err)
		got, err := p.pick(&http.Request{URL: u})
		require.NoError(t, err)
		if tc.want == "" {
			require.Nil(t, got, "%+v", tc)
		} else {
			require.Equal(t, tc.want, got.Host, "%+v", tc)
		}
	}
	p.HTTPS = "http://u:geheim@%zz"
	_, err := p.pick(&http.Request{URL: &url.URL{Scheme: "https", Host: "b.example"}})
	require.ErrorContains(t, err, "not a URL")
	require.NotContains(t, err.Error(), "geheim")
}

func TestDownloadGoesThroughTheProxy(t *testing.T) {
	data := tarball(t, releaseEntries("8.2.5")...)
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		w.Write(data)
	}))
	defer proxy.Close()
	r := &Release{Version: "8.2.5", Mirror: "http://mirror.invalid", Arch: "amd64", SHA256: sumOf(data), Proxy: Proxy{HTTP: proxy.URL}}
	require.NoError(t, apply(t, machine(t), r))
	require.Equal(t, []string{"http://mirror.invalid/v8.2.5/" + name825}, asked)
}

package resource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProxyIsChosenAsConcourseItselfDoes(t *testing.T) {
	for _, tc := range []struct{ no, url, want string }{
		{"", "http://a.example/x", "http://plain:1"},
		{"", "https://a.example/x", "http://secure:2"},
		{"", "http://localhost:9401/-/healthy", ""},
		{"", "http://127.0.0.1:8888/", ""},
		{"", "http://[::1]/", ""},
		{"a.example", "http://a.example/", ""},
		{"a.example", "http://b.a.example/", ""},
		{".lan", "http://host.lan:8080/", ""},
		{"*.a.example", "http://b.a.example/", ""},
		{"a.example", "http://ba.example/", "http://plain:1"},
		{"A.Example", "http://a.example/", ""},
		{"x, a.example", "http://a.example/", ""},
		{"a.example:81", "http://a.example/", "http://plain:1"},
		{"a.example:80", "http://a.example/", ""},
		{"registry:5000", "http://registry:5000/", ""},
		{"registry:5000", "http://registry:5001/", "http://plain:1"},
		{"10.0.0.0/8", "http://10.1.2.3/", ""},
		{"10.0.0.0/8", "http://11.1.2.3/", "http://plain:1"},
		{"10.1.2.3", "http://10.1.2.3/", ""},
		{"fd00::/8", "http://[fd00::1]/", ""},
		{"fd00::1", "http://[fd00::1]/", ""},
		{"*", "https://a.example/", ""},
		{",", "https://a.example/", "http://secure:2"},
		// What the charm's own two readers once disagreed about.
		{"ci.example.com", "https://ci.example.com./", "http://secure:2"},
		{"ci.example.com.", "https://ci.example.com./", ""},
		{"ci.example.com.", "https://ci.example.com/", "http://secure:2"},
		{"10.0.0.1:443", "https://10.0.0.1/", ""},
		{"10.0.0.1:443", "http://10.0.0.1/", "http://plain:1"},
		{"FD00:0:0::1", "http://[fd00::1]/", ""},
		{"*example.com", "https://example.com/", "http://secure:2"},
		{"*example.com", "https://a.example.com/", "http://secure:2"},
	} {
		req, err := http.NewRequest(http.MethodGet, tc.url, nil)
		require.NoError(t, err)
		got, err := Proxies{HTTP: "http://plain:1", HTTPS: "http://secure:2", No: tc.no}.Func()(req)
		require.NoError(t, err)
		if tc.want == "" {
			require.Nil(t, got, "%+v", tc)
		} else {
			require.NotNil(t, got, "%+v", tc)
			require.Equal(t, tc.want, got.String(), "%+v", tc)
		}
	}
}

func TestWrongProxyIsNeitherPassedByNorPrinted(t *testing.T) {
	for _, wrong := range []string{"http://u:geheim@%zz", "geheim:3128", "http:///geheim"} {
		p := Proxies{HTTPS: wrong, No: "near.example"}
		for target, want := range map[string]string{
			"https://b.example/": "the proxy's address is not a URL", "https://near.example/": "", "http://b.example/": "",
		} {
			req, err := http.NewRequest(http.MethodGet, target, nil)
			require.NoError(t, err)
			got, err := p.Func()(req)
			require.Nil(t, got)
			if want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, want)
			}
		}
	}
}

func TestCommandsGetTheProxiesThatAreGiven(t *testing.T) {
	p := Proxies{HTTP: "http://p1:1", HTTPS: "http://p2:2", No: "a,b"}
	require.Equal(t, []string{"http_proxy=http://p1:1", "https_proxy=http://p2:2", "no_proxy=a,b"}, p.Env())
	require.Empty(t, Proxies{}.Env())
}

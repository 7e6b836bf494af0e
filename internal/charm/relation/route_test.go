package relation

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// routes are webs as they ask for a route, with their units' addresses.
var routes = map[string]struct {
	Route
	Units []string
}{
	"named":    {Route{Service: "ci-web", Port: 8080, Hostname: "ci.example.com"}, []string{"10.0.0.2", "10.0.0.3"}},
	"unnamed":  {Route{Service: "ci-web", Port: 8080}, []string{"fd00::2"}},
	"all":      {Route{Service: "ci-web", Port: 8443, TLS: true, Hosts: []string{"10.0.0.2"}, Hostname: "ci.example.com", HTTP: true}, []string{"10.0.0.2", "10.0.0.3"}},
	"fleet":    {Route{Service: "ci-web_fleet", Port: 9358, Hostname: "ci.example.com", Path: "/fleet"}, []string{"10.0.0.2", "10.0.0.3"}},
	"no-units": {Route{Service: "ci-web", Port: 8080, Hostname: "ci.example.com"}, []string{""}},
}

// recordedRoute has routes as the provider's library read them, and its answers.
type recordedRoute struct {
	App   map[string]string   `json:"app"` // what it was given
	Units []map[string]string `json:"units"`
	Read  *struct {
		Service   string   `json:"service"`
		Ports     []int    `json:"ports"`
		Protocol  string   `json:"protocol"`
		Hostname  string   `json:"hostname"`
		AllowHTTP bool     `json:"allow_http"`
		Servers   []string `json:"servers"`
		Paths     []string `json:"paths"`
		Timeout   struct{ Server, Connect, Queue int }
		Check     struct {
			Interval, Rise, Fall int
			Path                 string
		}
	} `json:"read"`
	Provider map[string]string `json:"provider"`
}

func recordedRoutes(t testing.TB) map[string]recordedRoute {
	t.Helper()
	data, err := os.ReadFile("testdata/route.json")
	require.NoError(t, err)
	var file struct {
		Recorded map[string]recordedRoute `json:"recorded"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	require.Len(t, file.Recorded, len(routes)+1, "each of routes, and one that gives no name")
	return file.Recorded
}

func TestRouteMatchesTheLibrary(t *testing.T) {
	recorded := recordedRoutes(t)
	for name, r := range routes {
		got := recorded[name]
		app, err := r.Databag()
		require.NoError(t, err, name)
		for key, value := range app {
			require.Equal(t, got.App[key], value, "%s: %s; record it again", name, key)
		}
		for i, address := range r.Units {
			require.Equal(t, got.Units[i]["address"], RouteUnit(address)["address"], name)
		}
		if name == "no-units" {
			require.Nil(t, got.Read, "a unit without an address has all of it refused")
			continue
		}
		require.NotNil(t, got.Read, name)
		require.Equal(t, r.Service, got.Read.Service, name)
		require.Equal(t, []int{r.Port}, got.Read.Ports, name)
		require.Equal(t, r.Hostname, got.Read.Hostname, name)
		require.Equal(t, r.HTTP, got.Read.AllowHTTP, name)
		require.Equal(t, r.TLS, got.Read.Protocol == "https", name)
		require.Equal(t, 3600, got.Read.Timeout.Server, name)
		if r.Path == "" {
			require.Equal(t, "/api/v1/info", got.Read.Check.Path, name)
			require.Empty(t, got.Read.Paths, name)
		} else {
			require.Equal(t, r.Path+"/-/healthy", got.Read.Check.Path, name)
			require.Equal(t, []string{r.Path}, got.Read.Paths, name)
		}
		servers := r.Units
		if len(r.Hosts) > 0 {
			servers = r.Hosts
		}
		require.ElementsMatch(t, servers, got.Read.Servers, name)
	}
}

func TestEndpointsOfTheProxyAreRead(t *testing.T) {
	recorded := recordedRoutes(t)
	for name, want := range map[string][]string{"named": {"https://ci.example.com"}, "all": {"https://ci.example.com"}, "unnamed": {"https://proxy.example.com"},
		"no-units": {}, "nameless": {}, "fleet": {"https://ci.example.com/fleet"}} {
		got, problem := ParseRoute(recorded[name].Provider, routes[name].Path)
		require.NoError(t, problem, name)
		require.Equal(t, want, got, name)
	}
	got, problem := ParseRoute(nil, "")
	require.NoError(t, problem)
	require.Empty(t, got)
}

func TestInvalidEndpointsAreProblems(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "want a JSON list of URLs", `[1]`: "want a JSON list of URLs", "https://ci.example.com": "want a JSON list of URLs",
		`["ftp://ci.example.com"]`: "want https://host:port", `["ci.example.com"]`: "want https://host:port",
		`["https://u:p@ci.example.com"]`: "want https://host:port without user, query and fragment",
		`["https://ci.example.com/?q"]`:  "want https://host:port without user, query and fragment",
		`["https://ci.example.com/web"]`: "it has a path, and the web needs a separate name",
		`["https://a b"]`:                "it is not a URL", `["https://a\nX=1"]`: "it is not a URL", `["https://"]`: `"https://" names no host`,
		strings.Repeat(" ", 20000): "it is longer than 16384 bytes",
	} {
		got, problem := ParseRoute(map[string]string{"endpoints": text}, "")
		require.EqualError(t, problem, "endpoints: "+want, text)
		require.Nil(t, got, text)
	}
}

func TestEndpointsOfAPathHaveThatPath(t *testing.T) {
	for _, endpoint := range []string{"https://ci.example.com", "https://ci.example.com/",
		"https://ci.example.com/fleet2", "https://ci.example.com/x/fleet"} {
		_, problem := ParseRoute(map[string]string{"endpoints": `["` + endpoint + `"]`}, "/fleet")
		require.EqualError(t, problem, "endpoints: want the path /fleet", endpoint)
	}
	const two = `["https://ci.example.com/fleet/", "https://gpus.example.com/fleet"]`
	got, problem := ParseRoute(map[string]string{"endpoints": two}, "/fleet")
	require.NoError(t, problem)
	require.Equal(t, []string{"https://ci.example.com/fleet", "https://gpus.example.com/fleet"}, got)
}

func TestRouteNameNeedsADomain(t *testing.T) {
	for url, want := range map[string]string{
		"https://ci.example.com": "ci.example.com", "http://CI.Example.com:8443/x": "CI.Example.com", "https://ci.lan": "ci.lan", "https://a.xn--p1ai": "a.xn--p1ai",
		"https://ci": "", "https://10.0.0.2:8443": "", "http://[fd00::2]": "", "": "", "https://ci_x.example.com": "", "https://-ci.example.com": "", "%": "",
		"https://" + strings.Repeat("a.", 130) + "com": "",
	} {
		require.Equal(t, want, RouteName(url), url)
	}
}

func TestZeroRouteRemovesAllKeys(t *testing.T) {
	whole, err := routes["all"].Databag()
	require.NoError(t, err)
	none, err := Route{}.Databag()
	require.NoError(t, err)
	fleet, err := routes["fleet"].Databag()
	require.NoError(t, err)
	require.Len(t, none, len(whole))
	maps.Copy(whole, fleet)
	for key := range whole {
		require.Empty(t, none[key], key)
	}
}

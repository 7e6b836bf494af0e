package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

// behind is a web that is related to a proxy, which answered with these endpoints.
func behind(t *testing.T, endpoints string, set map[string]any) Observed {
	t.Helper()
	o := observedWeb(t, set)
	o.Facts.Route = &model.Route{Relation: model.Relation{ID: "haproxy-route:15", App: "haproxy", Remote: map[string]string{"endpoints": endpoints}}, Address: "10.0.0.2"}
	return o
}

func TestURLOfTheWebIsTheProxys(t *testing.T) {
	const proxied = `["https://proxy.example.com/"]`
	for name, c := range map[string]struct {
		external, endpoints, url, remark string
	}{
		"its URL":               {"", proxied, "https://proxy.example.com", ""},
		"the first of several":  {"", `["https://a.example.com/", "https://b.example.com/"]`, "https://a.example.com", ""},
		"external-url wins":     {"https://b.example.com", `["https://a.example.com/", "https://b.example.com/"]`, "https://b.example.com", ""},
		"without TLS, too":      {"http://proxy.example.com", proxied, "http://proxy.example.com", ""},
		"the scheme's own port": {"https://Proxy.example.com:443", proxied, "https://Proxy.example.com:443", ""},
		"another name": {"https://ci.example.com", proxied, "https://ci.example.com",
			"haproxy has another URL than external-url: it has the web at https://proxy.example.com, and external-url is https://ci.example.com; set external-url to the first one, or to nothing"},
		"the web's own port": {"https://proxy.example.com:8443", proxied, "https://proxy.example.com:8443",
			"haproxy has another URL than external-url: it has the web at https://proxy.example.com, and external-url is https://proxy.example.com:8443; set external-url to the first one, or to nothing"},
		"no answer yet":         {"https://ci.example.com", "", "https://ci.example.com", "haproxy has no URL for the web yet — run: juju status haproxy"},
		"refused":               {"https://ci.example.com", "[]", "https://ci.example.com", "haproxy has no URL for the web yet — run: juju status haproxy"},
		"a name is missing":     {"", "[]", "http://10.0.0.2:8080", "haproxy has no name for the web: set external-url to one with a domain, such as https://ci.example.com"},
		"an address is no name": {"http://10.0.0.2:8080", "[]", "http://10.0.0.2:8080", "haproxy has no name for the web: set external-url to one with a domain, such as https://ci.example.com"},
		"what is no URL": {"", `["https://a/b"]`, "http://10.0.0.2:8080", "endpoints: it has a path, and the web needs a separate name: " +
			"haproxy must correct it, or remove the relation; until then its data is not used — run: juju remove-relation concourse-ci-machine:haproxy-route haproxy"},
	} {
		d := Desire(behind(t, c.endpoints, map[string]any{"external-url": c.external}), nil)
		require.True(t, d.Up, name)
		require.Equal(t, c.url, d.URL, name)
		require.Equal(t, c.url, webEnv(t, d)["CONCOURSE_EXTERNAL_URL"], name)
		if c.remark == "" {
			require.Empty(t, d.Causes, name)
			continue
		}
		require.Len(t, d.Causes, 1, name)
		require.Equal(t, status.Active, d.Causes[0].Kind, name)
		require.Equal(t, "haproxy-route: "+c.remark, d.Causes[0].String(), name)
	}
}

func TestFleetRouteRequestsThePathBelowTheNameOfTheWeb(t *testing.T) {
	with := func(set map[string]any) Observed {
		o := observedWeb(t, set)
		o.Facts.FleetRoute = &model.Route{Relation: model.Relation{ID: "fleet-route:16", App: "haproxy"}, Address: "10.0.0.2"}
		return o
	}
	certified := with(map[string]any{"enable-metrics": true})
	certified.TLS = true
	page := relation.Route{Service: "ci-concourse-ci-machine_fleet", Port: 9358, Path: "/fleet"}
	named, alone, plain := page, page, page
	named.Hostname, alone.Hosts, plain.Hostname, plain.HTTP = "ci.example.com", []string{"10.0.0.2"}, "ci.example.com", true
	const noName, off = "fleet-route: haproxy has no name for the fleet page: set external-url to one with a domain, such as https://ci.example.com",
		"fleet-route: the fleet page is off — run: juju config concourse-ci-machine enable-metrics=true"
	for name, c := range map[string]struct {
		o      Observed
		want   relation.Route
		remark string
	}{
		"as it is":            {with(map[string]any{"enable-metrics": true}), page, noName},
		"its name":            {with(map[string]any{"enable-metrics": true, "external-url": "https://ci.example.com"}), named, "fleet-route: haproxy has no URL for the fleet page yet — run: juju status haproxy"},
		"without TLS":         {with(map[string]any{"enable-metrics": true, "external-url": "http://ci.example.com"}), plain, "fleet-route: haproxy has no URL for the fleet page yet — run: juju status haproxy"},
		"the web's TLS":       {certified, page, noName},
		"the leader alone":    {with(map[string]any{"enable-metrics": true, "mode": "auto"}), alone, noName},
		"no page":             {with(map[string]any{"external-url": "https://ci.example.com"}), relation.Route{}, off},
		"the page is off":     {with(map[string]any{"fleet-page": "off"}), relation.Route{}, off + " fleet-page=names"},
		"no proxy, no remark": {observedWeb(t, map[string]any{"enable-metrics": true}), relation.Route{}, ""},
	} {
		d := Desire(c.o, nil)
		require.Equal(t, c.want, d.FleetRoute, name)
		require.Zero(t, d.Route, name)
		if c.remark == "" {
			require.Empty(t, d.Causes, name)
			continue
		}
		require.Len(t, d.Causes, 1, name)
		require.Equal(t, c.remark, d.Causes[0].String(), name)
	}
}

func TestRouteRequestsThePortAndNameOfTheWeb(t *testing.T) {
	certified := func(o Observed) Observed {
		o.TLS = true
		return o
	}
	with := func(set map[string]any) Observed { return behind(t, "", set) }
	noAddress := with(map[string]any{"mode": "auto"})
	noAddress.Facts.Route.Address = ""
	const service = "ci-concourse-ci-machine"
	for name, c := range map[string]struct {
		o    Observed
		want relation.Route
	}{
		"as it is":         {with(nil), relation.Route{Service: service, Port: 8080}},
		"its name":         {with(map[string]any{"external-url": "https://ci.example.com/"}), relation.Route{Service: service, Port: 8080, Hostname: "ci.example.com"}},
		"without TLS":      {with(map[string]any{"external-url": "http://ci.example.com"}), relation.Route{Service: service, Port: 8080, Hostname: "ci.example.com", HTTP: true}},
		"its certificate":  {certified(with(nil)), relation.Route{Service: service, Port: 8443, TLS: true}},
		"another port":     {with(map[string]any{"web-port": 80}), relation.Route{Service: service, Port: 80}},
		"the leader alone": {with(map[string]any{"mode": "auto"}), relation.Route{Service: service, Port: 8080, Hosts: []string{"10.0.0.2"}}},
		"no address yet":   {noAddress, relation.Route{}},
		"no proxy":         {observedWeb(t, nil), relation.Route{}},
	} {
		require.Equal(t, c.want, Desire(c.o, nil).Route, name)
	}
}

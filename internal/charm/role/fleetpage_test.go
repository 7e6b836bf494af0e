package role

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

func TestFleetPageHasAURLOnlyIfItIsServed(t *testing.T) {
	web := func(address string) model.Facts { return model.Facts{Web: &model.Web{Address: address}} }
	bag := map[string]string{"fleet-page": "http://10.0.0.2:9358/"}
	behind := func(endpoints string) model.Facts {
		f := web("10.0.0.2")
		f.FleetRoute = &model.Route{Relation: model.Relation{Remote: map[string]string{"endpoints": endpoints}}}
		return f
	}
	const proxied = `["https://ci.example.com/fleet"]`
	for name, tc := range map[string]struct {
		facts model.Facts
		set   map[string]any
		want  string
	}{
		"web":                    {web("10.0.0.2"), map[string]any{"enable-metrics": true}, "http://10.0.0.2:9358/"},
		"without names":          {web("fd00::2"), map[string]any{"enable-metrics": true, "fleet-page": "anonymous"}, "http://[fd00::2]:9358/"},
		"behind a proxy":         {behind(proxied), map[string]any{"enable-metrics": true}, "https://ci.example.com/fleet/"},
		"proxy without a name":   {behind("[]"), map[string]any{"enable-metrics": true}, "http://10.0.0.2:9358/"},
		"proxy of the web":       {behind(`["https://ci.example.com/"]`), map[string]any{"enable-metrics": true}, "http://10.0.0.2:9358/"},
		"off behind a proxy":     {behind(proxied), map[string]any{"enable-metrics": true, "fleet-page": "off"}, ""},
		"off":                    {web("10.0.0.2"), map[string]any{"enable-metrics": true, "fleet-page": "off"}, ""},
		"no address":             {web(""), map[string]any{"enable-metrics": true}, ""},
		"no metrics":             {web("10.0.0.2"), nil, ""},
		"worker":                 {model.Facts{Config: map[string]any{"mode": "worker"}, Flights: []model.Relation{{Units: map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "tsa-public-key": key, "fleet-page": bag["fleet-page"]}}}}}, nil, bag["fleet-page"]},
		"worker of an older web": {model.Facts{Config: map[string]any{"mode": "worker"}, Flights: []model.Relation{{Units: map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "tsa-public-key": key}}}}}, nil, ""},
		"worker without a web":   {model.Facts{Config: map[string]any{"mode": "worker"}}, nil, ""},
		"worker of the leader":   {model.Facts{Config: map[string]any{"mode": "auto"}, Peer: &model.Relation{Remote: bag}}, nil, bag["fleet-page"]},
	} {
		c, problems := config.Parse(tc.set, nil)
		require.Empty(t, problems)
		require.Equal(t, tc.want, FleetPage(tc.facts, c.Web), name)
	}
}

func TestStatusPageHasTheAddressThatTheWebHas(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.11": "http://10.0.0.11:9401/", "fd00::11": "http://[fd00::11]:9401/", "gpu.maas": "", "": "",
	} {
		require.Equal(t, want, StatusPage(model.Facts{Address: address}))
	}
}

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"

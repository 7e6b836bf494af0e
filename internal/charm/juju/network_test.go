package juju

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine that ran a worker before it came to Juju has the bridge of its tasks already.
func TestAddressOfTheTasksBridgeIsNeverGiven(t *testing.T) {
	on := func(name, address string) BindAddress {
		return BindAddress{Interface: name, Addresses: []InterfaceAddress{{Address: address}}}
	}
	bridge, eth := on("concourse0", "10.80.0.1"), on("eth0", "10.0.0.5")
	for name, c := range map[string]struct {
		network Network
		want    string
	}{
		"the bridge is first":      {Network{BindAddresses: []BindAddress{bridge, eth}, IngressAddresses: []string{"10.80.0.1", "10.0.0.5"}}, "10.0.0.5"},
		"only the bridge is given": {Network{BindAddresses: []BindAddress{bridge, eth}, IngressAddresses: []string{"10.80.0.1"}}, "10.0.0.5"},
		"no ingress address":       {Network{BindAddresses: []BindAddress{bridge, eth}}, "10.0.0.5"},
		"another network of tasks": {Network{BindAddresses: []BindAddress{eth}, IngressAddresses: []string{"10.80.0.1"}}, "10.80.0.1"},
		"nothing but the bridge":   {Network{BindAddresses: []BindAddress{bridge}, IngressAddresses: []string{"10.80.0.1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.network.Ingress()) })
	}
}

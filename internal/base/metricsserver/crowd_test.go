package metricsserver

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoMustGoForTheNextClient(t *testing.T) {
	client := func(n int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.0.%d.%d/32", n/256, n%256)) }
	each := func(n int) (all []netip.Prefix) {
		for i := range n {
			all = append(all, client(i+1000))
		}
		return all
	}
	l := limit{client: 8, all: 64}
	a, b := client(1), client(2)
	for name, c := range map[string]struct {
		clients []netip.Prefix
		goes    int
	}{
		"one":                             {each(1), -1},
		"a client's whole share":          {slices.Repeat([]netip.Prefix{a}, l.client), -1},
		"the first of its share":          {append([]netip.Prefix{b}, slices.Repeat([]netip.Prefix{a}, l.client+1)...), 1},
		"all places":                      {each(l.all), -1},
		"the first where all are alike":   {each(l.all + 1), 0},
		"the first of who has the most":   {append(append(each(l.all-2), a, a), b), l.all - 2},
		"its own, where that is the most": {append(append(each(l.all-1), a), a), l.all - 1},
	} {
		require.Equal(t, c.goes, l.exceeded(c.clients), name)
	}
}

func TestClients(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3:4711":               "10.1.2.3/32",
		"[::ffff:10.1.2.3]:4711":      "10.1.2.3/32",
		"127.0.0.1:1":                 "0.0.0.0/0",
		"127.9.9.9:1":                 "0.0.0.0/0",
		"[::1]:1":                     "::/0",
		"[2001:db8:0:7:1:2:3:4]:4711": "2001:db8:0:7::/64",
		"[fe80::1%eth0]:4711":         "fe80::/64",
	} {
		a, err := netip.ParseAddrPort(address)
		require.NoError(t, err)
		require.Equal(t, want, clientOf(net.TCPAddrFromAddrPort(a)).String(), address)
	}
}

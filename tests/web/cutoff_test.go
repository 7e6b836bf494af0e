//go:build e2e

package web

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// ended reports whether the other side of a connection no longer exists, at once when it is
// not.
func ended(t *testing.T, c net.Conn) bool {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err := io.ReadFull(c, make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	require.Error(t, err)
	return true
}

// The kernel ends the connections of one address to the TSA's port and no
// other, of whatever family, and a listener stays.
func TestConnectionsOfOneAddressAreCutOff_D19(t *testing.T) {
	need(t)
	for _, a := range []string{"10.99.0.1/32", "10.99.0.2/32", "fd99::1/128", "fd99::2/128"} {
		out, err := exec.Command("ip", "address", "replace", a, "dev", "lo").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	// The kernel makes an IPv6 address usable, and its route, after the command.
	at := func(ip string) *net.UDPAddr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: 2222} }
	usable := func(from, to string) bool {
		c, err := net.DialUDP("udp6", at(from), at(to)) // sends nothing
		return err == nil && c.Close() == nil
	}
	require.Eventually(t, func() bool { return usable("fd99::1", "fd99::2") && usable("fd99::2", "fd99::1") }, patience, tick)
	h := host.New("/")
	for name, c := range map[string]struct{ network, listen, worker, other, to string }{
		"IPv4":                        {"tcp4", "0.0.0.0:2222", "10.99.0.1", "10.99.0.2", "127.0.0.1:2222"},
		"IPv4 on a socket for both":   {"tcp", "[::]:2222", "10.99.0.1", "10.99.0.2", "127.0.0.1:2222"},
		"IPv6":                        {"tcp", "[::]:2222", "fd99::1", "fd99::2", "[fd99::2]:2222"},
		"IPv6 to a socket for itself": {"tcp6", "[fd99::2]:2222", "fd99::1", "fd99::2", "[fd99::2]:2222"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen(c.network, c.listen)
			require.NoError(t, err)
			defer listener.Close()
			dial := func(from string) net.Conn {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
				conn, err := d.Dial("tcp", c.to)
				require.NoError(t, err)
				t.Cleanup(func() { conn.Close() })
				accepted, err := listener.Accept()
				require.NoError(t, err)
				t.Cleanup(func() { accepted.Close() })
				return conn
			}
			worker, again, other := dial(c.worker), dial(c.worker), dial(c.other)
			d := concourse.Disconnect{Addr: c.worker, Why: "gpu/0 has gone"}
			p, err := plan.Diff(context.Background(), h, d)
			require.NoError(t, err)
			require.Len(t, p, 1)
			require.False(t, ended(t, worker), "looking ends nothing")
			notes, err := p.Apply(context.Background(), nil)
			require.NoError(t, err)
			require.Empty(t, notes, "a kernel without CONFIG_INET_DIAG_DESTROY can't do this")
			require.True(t, ended(t, worker))
			require.True(t, ended(t, again))
			require.False(t, ended(t, other), "another worker's stays")
			dial(c.worker) // the TSA listens on
		})
	}
}

// Without the right to it ss ends nothing and exits 0: the step finds out.
func TestCutOffWithoutTheCapabilityIsARemark(t *testing.T) {
	need(t)
	listener, err := net.Listen("tcp4", "127.0.0.1:2222")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", "127.0.0.1:2222")
	require.NoError(t, err)
	defer conn.Close()
	h := host.Host{Root: "/", Runner: powerless{}}
	p, err := plan.Diff(context.Background(), h, concourse.Disconnect{Addr: "127.0.0.1", Why: "gone"})
	require.NoError(t, err)
	notes, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.ErrorContains(t, notes[0].Err, "they are still there after ss --kill")
	require.False(t, ended(t, conn))
}

// powerless runs commands without capabilities.
type powerless struct{}

func (powerless) Run(ctx context.Context, c host.Command) ([]byte, error) {
	c.Argv = append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--regid=65534", "--clear-groups"}, c.Argv...)
	return host.Exec{}.Run(ctx, c)
}

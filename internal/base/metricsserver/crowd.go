package metricsserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// Maximum numbers of connections for one client and in total. A Prometheus server has one,
// a browser six.
const (
	perClient = 8
	inAll     = 64
	// sendBuffer is the size of the kernel's buffer for unread answers.
	sendBuffer = 256 << 10
)

// crowd is a listener that always accepts the next client. If there are too many
// connections, it closes another one. So a health check always gets a connection.
type crowd struct {
	*net.TCPListener
	mu   sync.Mutex
	here []*guest // oldest first
}

// guest represents one connection.
type guest struct {
	*net.TCPConn
	crowd  *crowd
	client netip.Prefix
	cancel context.CancelFunc // cancels its requests
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.AcceptTCP()
	if err != nil {
		return nil, err
	}
	conn.SetWriteBuffer(sendBuffer) // a hint; the kernel may ignore it
	g := &guest{TCPConn: conn, crowd: c, client: clientOf(conn.RemoteAddr()), cancel: func() {}}
	if out := c.admit(g); out != nil {
		out.SetLinger(0) // discard unread data
		out.cancel()
		out.Close()
	}
	return g, nil
}

// admit adds a guest, and returns the guest to close for it, or nil.
func (c *crowd) admit(g *guest) *guest {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here = append(c.here, g)
	clients := make([]netip.Prefix, len(c.here))
	for i, h := range c.here {
		clients[i] = h.client
	}
	if i := tooMany(clients); i >= 0 {
		return c.here[i]
	}
	return nil
}

// Close implements net.Conn.
func (g *guest) Close() error {
	c := g.crowd
	c.mu.Lock()
	for i, h := range c.here {
		if h == g {
			c.here = append(c.here[:i], c.here[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	return g.TCPConn.Close()
}

// tooMany returns the index of the connection to close after the last one came, or -1. It
// is the oldest one of a client that has more than its share, otherwise of the client with
// the most connections.
func tooMany(clients []netip.Prefix) int {
	number := map[netip.Prefix]int{}
	most := clients[len(clients)-1]
	for _, c := range clients {
		number[c]++
	}
	switch {
	case number[most] > perClient:
	case len(clients) <= inAll:
		return -1
	default:
		most = clients[0]
		for _, c := range clients {
			if number[c] > number[most] {
				most = c
			}
		}
	}
	for i, c := range clients {
		if c == most {
			return i
		}
	}
	return -1
}

// clientOf returns the client that an address belongs to. This machine is one client with
// all its addresses, and an IPv6 network is one client.
func clientOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	switch {
	case ip.IsLoopback():
		bits = 0
	case ip.Is6():
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

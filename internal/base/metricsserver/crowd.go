package metricsserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// How many connections one client, and all together, may have. A Prometheus
// server has one, a browser six.
const (
	perClient = 8
	inAll     = 64
	// sendBuffer is what the kernel keeps of answers that a client does not read.
	sendBuffer = 256 << 10
)

// crowd is a listener that always lets the next client in, and where there are
// too many sends another one away: who comes to see whether the program is well
// is never the one that is left standing.
type crowd struct {
	*net.TCPListener
	mu   sync.Mutex
	here []*guest // the first come first
}

// guest is one connection.
type guest struct {
	*net.TCPConn
	crowd  *crowd
	client netip.Prefix
	leave  context.CancelFunc // ends its requests
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.AcceptTCP()
	if err != nil {
		return nil, err
	}
	conn.SetWriteBuffer(sendBuffer) // a wish
	g := &guest{TCPConn: conn, crowd: c, client: clientOf(conn.RemoteAddr()), leave: func() {}}
	if out := c.admit(g); out != nil {
		out.SetLinger(0) // nor is what it did not read kept
		out.leave()
		out.Close()
	}
	return g, nil
}

// admit adds a guest, and returns who has to go for it.
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

// tooMany is which of the clients' connections has to go after the last one
// came, or -1: the first of a client that has more than its share, or else of
// the one that has the most.
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

// clientOf is who has an address: this machine with all of its own, and with
// IPv6 whoever has the network.
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

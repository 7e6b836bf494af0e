package metricsserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// sendBuffer limits the kernel's buffer for unread answers, in bytes. Only a longer answer
// that its client does not read occupies memory of this program.
const sendBuffer = 256 << 10

// limit holds maximum numbers of connections for one client and in total. A Prometheus
// server has one connection, a browser six, and a reverse proxy one for each user.
type limit struct{ client, all int }

var (
	connections   = limit{256, 256}
	unreadAnswers = limit{8, 64} // connections with unread answers longer than sendBuffer
)

// crowd is a listener that always accepts the next client. If there are too many
// connections, or too many with long unread answers, it closes another one. So a health
// check always gets a connection.
type crowd struct {
	*net.TCPListener
	mu     sync.Mutex
	here   []*guest // oldest first
	unread []*guest // those with a long unread answer, oldest first
}

// guest represents one connection.
type guest struct {
	*net.TCPConn
	crowd  *crowd
	client netip.Prefix
	cancel context.CancelFunc // cancels its requests
	sent   atomic.Int64       // bytes of the current answer
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.AcceptTCP()
	if err != nil {
		return nil, err
	}
	conn.SetWriteBuffer(sendBuffer) // a hint; the kernel may ignore it
	g := &guest{TCPConn: conn, crowd: c, client: clientOf(conn.RemoteAddr()), cancel: func() {}}
	c.admit(&c.here, g, connections)
	return g, nil
}

// admit adds a guest to a list, and closes the guest that is too many for it.
func (c *crowd) admit(list *[]*guest, g *guest, most limit) {
	c.mu.Lock()
	*list = append(*list, g)
	clients := make([]netip.Prefix, len(*list))
	for i, h := range *list {
		clients[i] = h.client
	}
	var out *guest
	if i := most.exceeded(clients); i >= 0 {
		out = (*list)[i]
	}
	c.mu.Unlock()
	if out != nil {
		out.SetLinger(0) // discard unread data
		out.cancel()
		out.Close()
	}
}

// leave removes a guest from a list.
func (c *crowd) leave(list *[]*guest, g *guest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(*list, g); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// Write implements net.Conn. It waits until the kernel has all of b.
func (g *guest) Write(b []byte) (int, error) {
	n := int64(len(b))
	if sent := g.sent.Add(n); sent > sendBuffer && sent-n <= sendBuffer {
		g.crowd.admit(&g.crowd.unread, g, unreadAnswers)
	}
	return g.TCPConn.Write(b)
}

// answered ends an answer, which the kernel or the client has now.
func (g *guest) answered() {
	if g.sent.Swap(0) > sendBuffer {
		g.crowd.leave(&g.crowd.unread, g)
	}
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.crowd.leave(&g.crowd.here, g)
	g.crowd.leave(&g.crowd.unread, g)
	return g.TCPConn.Close()
}

// exceeded returns the index of the connection to close after the last one came, or -1. It
// is the oldest one of a client that has more than its share, otherwise of the client with
// the most connections.
func (l limit) exceeded(clients []netip.Prefix) int {
	number := map[netip.Prefix]int{}
	most := clients[len(clients)-1]
	for _, c := range clients {
		number[c]++
	}
	switch {
	case number[most] > l.client:
	case len(clients) <= l.all:
		return -1
	default:
		most = clients[0]
		for _, c := range clients {
			if number[c] > number[most] {
				most = c
			}
		}
	}
	return slices.Index(clients, most)
}

// guestOf returns the guest of a connection of the server, which may use TLS.
func guestOf(c net.Conn) *guest {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return c.(*guest)
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

package rtmp

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// MaxHandshakes limits the number of RTMP connections without a complete request. The limit applies
// separately to connections that have sent nothing yet, and to connections that have sent a part of
// a request. Each connection needs at most 32 KiB, for at most --header-timeout. Publishers and
// viewers have other limits.
const MaxHandshakes = 512

// Handshakes has all RTMP connections without a complete request.
type Handshakes struct {
	mu lock.Mutex
	// The connections in silent have sent nothing yet. The connections in begun have sent a part of
	// a request. The two crowds are separate, so that a new connection never replaces a connection
	// that has begun a request.
	silent, begun crowd
}

// A crowd holds at most MaxHandshakes connections that have not sent a complete request yet. If a
// connection is added to a full crowd, the oldest connection from the address with the most
// connections is closed. One address therefore cannot keep out clients with other addresses. If no
// address has more than address.FairShare connections, the oldest connection of all addresses is
// closed.
type crowd struct {
	list []handshake        // oldest first
	from map[netip.Addr]int // number of connections by address
}

type handshake struct {
	conn net.Conn
	from netip.Addr // address of the client, or of its proxy until the client's address is known
}

var errEvicted = errors.New("closed while silent to make room for new connections")

// peerOf returns the address of the client or proxy. It does not wait for the PROXY header.
func peerOf(conn net.Conn) netip.Addr {
	if p := proxy.Of(conn); p != nil {
		return proxy.KeyOf(p.TCPConn.RemoteAddr())
	}
	return proxy.KeyOf(conn.RemoteAddr())
}

// add adds conn. The client must have sent nothing yet. h borrows conn until remove is called. If
// too many connections are silent, add closes one of them.
func (h *Handshakes) add(conn net.Conn) {
	h.mu.Lock()
	victim := h.silent.add(handshake{conn, peerOf(conn)})
	h.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
}

// begin records that the first bytes have arrived on conn. client is the address of the client. If
// too many connections have sent a part of a request, begin closes one of them.
func (h *Handshakes) begin(conn net.Conn, client net.Addr) {
	h.mu.Lock()
	var victim net.Conn
	if h.silent.remove(conn) {
		victim = h.begun.add(handshake{conn, proxy.KeyOf(client)})
	}
	h.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
}

// remove removes conn. It returns false if conn was closed to make room for another connection.
func (h *Handshakes) remove(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent.remove(conn) || h.begun.remove(conn)
}

// add adds a connection. If the crowd then has too many connections, add removes one of them,
// perhaps the new connection, and returns the removed connection. The caller must close it.
func (c *crowd) add(a handshake) (victim net.Conn) {
	if c.from == nil {
		c.from = make(map[netip.Addr]int)
	}
	c.list = append(c.list, a)
	c.from[a.from]++
	if len(c.list) <= MaxHandshakes {
		return nil
	}
	worst, most := 0, 0
	for i := range c.list {
		if have := max(c.from[c.list[i].from], address.FairShare); have > most {
			worst, most = i, have
		}
	}
	return c.take(worst).conn
}

func (c *crowd) take(i int) handshake {
	a := c.list[i]
	c.list = slices.Delete(c.list, i, i+1)
	if c.from[a.from]--; c.from[a.from] == 0 {
		delete(c.from, a.from)
	}
	return a
}

func (c *crowd) remove(conn net.Conn) bool {
	i := slices.IndexFunc(c.list, func(a handshake) bool { return a.conn == conn })
	if i >= 0 {
		c.take(i)
	}
	return i >= 0
}

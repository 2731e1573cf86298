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

// MaxHandshakes limits the RTMP connections that have sent nothing yet, and separately the
// connections without a complete request. One of the latter takes at most 32 KiB, for at most
// --header-timeout. Publishers and viewers have other limits.
const MaxHandshakes = 512

// Handshakes are the RTMP connections without a request yet. Clients send it within a few round
// trips.
type Handshakes struct {
	mu lock.Mutex
	// Nothing has come from silent ones yet. They do not keep those out that have begun.
	silent, begun crowd
}

// A crowd has up to MaxHandshakes connections. When there is one more, the oldest one of the
// address that has the most gives way: an address cannot keep the clients of others out.
type crowd struct {
	list []handshake        // the oldest first
	from map[netip.Addr]int // connections by address
}

// A handshake is one connection.
type handshake struct {
	conn net.Conn
	from netip.Addr // the client, or the proxy until it has said for whom it speaks
}

// errEvicted ends a connection that gave way to a new one.
var errEvicted = errors.New("closed while silent to make room for new connections")

// peerOf returns the address of the other end of a connection, which may be a proxy. It does not
// wait.
func peerOf(conn net.Conn) netip.Addr {
	if p := proxy.Of(conn); p != nil {
		return proxy.KeyOf(p.TCPConn.RemoteAddr())
	}
	return proxy.KeyOf(conn.RemoteAddr())
}

// add adds conn, which it borrows until remove. It may close another connection.
func (h *Handshakes) add(conn net.Conn) {
	h.mu.Lock()
	victim := h.silent.add(handshake{conn, peerOf(conn)})
	h.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
}

// begin notes that something has come on conn, from a client that is known now. It may close
// another connection.
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

// remove removes conn. It reports false if conn has given way to another one.
func (h *Handshakes) remove(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent.remove(conn) || h.begun.remove(conn)
}

// add adds a connection, and returns the one that gives way to it, or nil.
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

// take removes the connection at an index.
func (c *crowd) take(i int) handshake {
	a := c.list[i]
	c.list = slices.Delete(c.list, i, i+1)
	if c.from[a.from]--; c.from[a.from] == 0 {
		delete(c.from, a.from)
	}
	return a
}

// remove removes conn, and reports whether it was there.
func (c *crowd) remove(conn net.Conn) bool {
	i := slices.IndexFunc(c.list, func(a handshake) bool { return a.conn == conn })
	if i >= 0 {
		c.take(i)
	}
	return i >= 0
}

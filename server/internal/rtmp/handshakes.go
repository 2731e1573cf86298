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

// MaxHandshakes limits the RTMP connections that have sent nothing yet. It is also the limit,
// counted separately, for connections that have sent something but no complete request. Such a
// connection needs at most 32 KiB, for at most --header-timeout. Publishers and viewers have other
// limits.
const MaxHandshakes = 512

// Handshakes holds the RTMP connections that have sent no complete request yet. Clients send the
// request within a few round trips.
type Handshakes struct {
	mu lock.Mutex
	// silent holds the connections that have sent nothing yet, and begun the others. Silent
	// connections do not displace begun ones.
	silent, begun crowd
}

// A crowd holds up to MaxHandshakes connections. If one more arrives, the crowd finds the address
// with the most connections, and closes the oldest of these. One address therefore cannot displace
// the clients of others.
type crowd struct {
	list []handshake        // oldest first
	from map[netip.Addr]int // number of connections by address
}

// A handshake is one connection of a crowd.
type handshake struct {
	conn net.Conn
	from netip.Addr // address of the client, or of the proxy until the proxy has named the client
}

// errEvicted ends a connection that was closed to make room for a new one.
var errEvicted = errors.New("closed while silent to make room for new connections")

// peerOf returns the address of the other end of a connection, which may be a proxy. It does not
// wait until the proxy has named the client.
func peerOf(conn net.Conn) netip.Addr {
	if p := proxy.Of(conn); p != nil {
		return proxy.KeyOf(p.TCPConn.RemoteAddr())
	}
	return proxy.KeyOf(conn.RemoteAddr())
}

// add adds conn to the silent connections, and borrows it until remove. It may close another
// connection.
func (h *Handshakes) add(conn net.Conn) {
	h.mu.Lock()
	victim := h.silent.add(handshake{conn, peerOf(conn)})
	h.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
}

// begin records that conn has sent something, and that its client is known now. It may close
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

// remove removes conn. It returns false if conn was closed to make room for another connection.
func (h *Handshakes) remove(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent.remove(conn) || h.begun.remove(conn)
}

// add adds a connection. If there are too many, add removes and returns one of them, which may be
// the new one. Otherwise it returns nil.
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

// take removes and returns the connection at index i.
func (c *crowd) take(i int) handshake {
	a := c.list[i]
	c.list = slices.Delete(c.list, i, i+1)
	if c.from[a.from]--; c.from[a.from] == 0 {
		delete(c.from, a.from)
	}
	return a
}

// remove removes conn, and reports whether conn was there.
func (c *crowd) remove(conn net.Conn) bool {
	i := slices.IndexFunc(c.list, func(a handshake) bool { return a.conn == conn })
	if i >= 0 {
		c.take(i)
	}
	return i >= 0
}

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

// MaxHandshakes is the maximum number of RTMP connections that have sent nothing yet. As many
// further connections may have sent something, but no complete request. A connection without a
// complete request needs at most 32 KiB, for at most --header-timeout. Publishers and viewers have
// other limits.
const MaxHandshakes = 512

// Handshakes has all RTMP connections that have not sent a complete request yet. Clients send the
// request within a few round trips.
type Handshakes struct {
	mu lock.Mutex
	// silent has the connections that have sent nothing yet, and begun has the other ones. A new
	// connection in silent therefore never replaces one in begun.
	silent, begun crowd
}

// A crowd has up to MaxHandshakes connections. If there is one too many, the oldest connection of
// the address with the most connections is closed. One address therefore cannot keep out the
// clients of others.
type crowd struct {
	list []handshake        // the oldest is first
	from map[netip.Addr]int // number of connections by address
}

// A handshake is a connection in a crowd.
type handshake struct {
	conn net.Conn
	from netip.Addr // address of the client, or of its proxy while the client is unknown
}

// errEvicted is the error of a connection that was closed because too many connections had not sent
// a complete request.
var errEvicted = errors.New("closed while silent to make room for new connections")

// peerOf returns the address of the peer of a connection, which is the client or a proxy. It does
// not wait for the PROXY header.
func peerOf(conn net.Conn) netip.Addr {
	if p := proxy.Of(conn); p != nil {
		return proxy.KeyOf(p.TCPConn.RemoteAddr())
	}
	return proxy.KeyOf(conn.RemoteAddr())
}

// add adds conn, which has sent nothing yet. Handshakes borrows conn until remove is called. If too
// many connections have sent nothing, add closes one of them.
func (h *Handshakes) add(conn net.Conn) {
	h.mu.Lock()
	victim := h.silent.add(handshake{conn, peerOf(conn)})
	h.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
}

// begin records that conn has sent its first bytes. client is the client's address. If too many
// connections have an incomplete request, begin closes one of them.
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

// add adds a connection. If there are too many, it removes one and returns it for the caller to
// close. That may be the new one.
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

// remove removes conn. It returns false if c does not have conn.
func (c *crowd) remove(conn net.Conn) bool {
	i := slices.IndexFunc(c.list, func(a handshake) bool { return a.conn == conn })
	if i >= 0 {
		c.take(i)
	}
	return i >= 0
}

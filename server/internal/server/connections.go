package server

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/ops"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// connections holds the connections of the main listener. It does not include the connections of
// HTTP/1 viewers, because net/http no longer serves those connections. If there are too many
// connections, it closes an idle connection to make room for a new one.
type connections struct {
	clients *clients
	tls     bool
	counts  ops.Connections

	mu    lock.Mutex
	limit int
	all   map[*proxy.Conn]netip.Addr // each with the client address for which the connection counts
	from  map[netip.Addr]int         // number of connections per address
}

const (
	// evictAmong is the maximum number of connections that [connections.worstIdle] compares. It
	// limits the work for each new connection in a flood of new connections. The compared
	// connections are a random sample, because iteration over a map begins at a random entry.
	evictAmong = 256
	// shedAfter is the idle time after which a connection may be closed to free memory.
	shedAfter = time.Second
	// plainBytes and tlsBytes are the memory of an idle connection in bytes, without and with TLS.
	// These sizes include the connection's goroutine and buffers.
	plainBytes, tlsBytes = 12 << 10, 36 << 10
)

// note records that net/http has changed the state of a connection. It is an http.Server.ConnState
// hook.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	p := proxy.Of(conn)
	if p == nil {
		return
	}
	switch state {
	case http.StateNew:
		p.IdleSince.Store(time.Now().UnixNano())
		c.add(p)
	case http.StateIdle:
		p.IdleSince.Store(time.Now().UnixNano())
	case http.StateActive:
		p.IdleSince.Store(0)
		if !p.Direct() {
			c.identify(p)
		}
	case http.StateHijacked, http.StateClosed:
		p.Hijacked.Store(state == http.StateHijacked)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(p)
	}
}

// add adds the new connection p. If there are too many connections, add closes an idle connection,
// or p if no connection is idle.
func (c *connections) add(p *proxy.Conn) {
	c.mu.Lock()
	var closing *proxy.Conn
	full := len(c.all) >= c.limit
	if full {
		if closing = c.worstIdle(); closing != nil {
			c.counts.Evicted.Add(1)
			c.remove(closing)
		}
	}
	refused := full && closing == nil
	if !refused {
		c.put(p, proxy.KeyOf(p.TCPConn.RemoteAddr()))
	}
	limit := c.limit
	c.mu.Unlock()
	switch {
	case refused:
		_ = p.Close()
		// Log in a separate goroutine, because writing the log may block. net/http accepts no
		// further connection until this function returns.
		go c.clients.refusals.Note(access.Reader, refuse.New(0,
			"all %d connections that --max-connections allows have requests",
			limit).For(refuse.Limit),
			"client", p.TCPConn.RemoteAddr().String())
	case closing != nil:
		_ = closing.Close()
	}
}

// put adds p to c.all, and counts p for the client address a. The caller must hold c.mu.
func (c *connections) put(p *proxy.Conn, a netip.Addr) {
	c.all[p] = a
	c.from[a]++
	c.counts.Open.Add(1)
}

// remove removes p from c.all and from the counts. If p is not in c.all, remove does nothing. The
// caller must hold c.mu.
func (c *connections) remove(p *proxy.Conn) {
	a, ok := c.all[p]
	if !ok {
		return
	}
	delete(c.all, p)
	c.counts.Open.Add(-1)
	if c.from[a]--; c.from[a] == 0 {
		delete(c.from, a)
	}
}

// identify counts a proxied connection for its client's address. Until then, the connection is
// counted for the proxy's address.
func (c *connections) identify(p *proxy.Conn) {
	client := proxy.KeyOf(p.RemoteAddr()) // the PROXY header has been read
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.all[p]; ok && was != client {
		c.remove(p)
		c.put(p, client)
	}
}

// worstIdle returns the idle connection to close first, or nil if no connection is idle. It returns
// a connection of the address with the most connections. If no address has more than
// address.FairShare connections, it returns the connection that has been idle for longest. The
// caller must hold c.mu.
func (c *connections) worstIdle() (worst *proxy.Conn) {
	looked, most, least := 0, 0, int64(0)
	for p, a := range c.all {
		have := max(c.from[a], address.FairShare)
		since := p.IdleSince.Load()
		if since != 0 && (worst == nil || have > most || have == most && since < least) {
			worst, most, least = p, have, since
		}
		if looked++; looked == evictAmong {
			break
		}
	}
	return worst
}

// free closes idle connections to free about excess bytes of memory, and returns the number of
// bytes freed. It begins with the connections that have been idle for longest. See [memory.Step].
func (c *connections) free(excess int64) (freed int64) {
	each := int64(plainBytes)
	if c.tls {
		each = tlsBytes
	}
	type waiting struct {
		conn  *proxy.Conn
		since int64
	}
	var list []waiting
	before := time.Now().Add(-shedAfter).UnixNano()
	c.mu.Lock()
	for p := range c.all {
		if since := p.IdleSince.Load(); since != 0 && since < before {
			list = append(list, waiting{p, since})
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return cmp.Compare(a.since, b.since) })
	list = list[:min(int64(len(list)), (excess+each-1)/each)]
	for _, w := range list {
		c.remove(w.conn)
	}
	c.counts.Shed.Add(int64(len(list)))
	c.mu.Unlock()
	for _, w := range list {
		_ = w.conn.Close()
	}
	return int64(len(list)) * each
}

// setLimit sets the maximum number of connections. If the maximum is lowered, open connections stay
// open.
func (c *connections) setLimit(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = n
}

package server

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/lock"
	"github.com/millrace-io/millrace/internal/proxy"
	"github.com/millrace-io/millrace/internal/relay"
)

// connections are those of the main listener that net/http serves: viewers of HTTP/1 are not among them. When there are as
// many as the limit, one that waits for a request gives way to a new one.
type connections struct {
	server *Server

	mu      lock.Mutex
	limit   int
	all     map[*proxy.Conn]struct{}
	evicted int64
}

// evictAmong is how many connections are looked at for the one that has waited for longest. Maps begin anywhere, so it is
// old as a rule, and a flood of connections does not make each of them look at all others.
const evictAmong = 256

// note is http.Server.ConnState.
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
	case http.StateHijacked, http.StateClosed:
		p.Hijacked.Store(state == http.StateHijacked)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, p)
	}
}

// add adds p, or closes it if all others have requests.
func (c *connections) add(p *proxy.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= c.limit {
		oldest := c.oldest()
		if oldest == nil {
			// In another goroutine: the log may block, and net/http accepts no connection before add returns.
			go c.server.refusals.note(clientReader, &relay.Refusal{Cause: relay.CauseLimit, Reason: fmt.Sprintf(
				"all %d connections that --max-connections allows have requests", c.limit)}, "client", p.TCPConn.RemoteAddr().String())
			_ = p.Close()
			return
		}
		c.evicted++
		delete(c.all, oldest)
		_ = oldest.Close()
	}
	c.all[p] = struct{}{}
}

// oldest returns a connection that waits for a request, or nil. c.mu is held.
func (c *connections) oldest() (oldest *proxy.Conn) {
	looked, least := 0, int64(0)
	for p := range c.all {
		if since := p.IdleSince.Load(); since != 0 && (oldest == nil || since < least) {
			oldest, least = p, since
		}
		if looked++; looked == evictAmong {
			break
		}
	}
	return oldest
}

// setLimit replaces the limit. Connections above a lower one stay.
func (c *connections) setLimit(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = n
}

// collect reports the metrics of connections.
func (c *connections) collect(to scrape) {
	c.mu.Lock()
	n, evicted := len(c.all), c.evicted
	c.mu.Unlock()
	to.gauge("connections", "Connections of the main listener, apart from viewers by HTTP/1.", int64(n))
	to.counter("connections_evicted_total", "Of these, those that were closed while they waited for a request, because "+
		"there were as many as --max-connections allows.", evicted)
	st := c.server.addresses.Stats()
	to.gauge("addresses", "Addresses that have a connection and are limited.", int64(st.Held))
}

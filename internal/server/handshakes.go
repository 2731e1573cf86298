package server

import (
	"errors"
	"net"
	"slices"

	"github.com/millrace-io/millrace/internal/lock"
)

// maxHandshakes bounds the RTMP connections that have not said yet what they want. Each takes some 10 KiB, and 128 KiB at
// the very most, for --header-timeout at most. Publishers and viewers have limits of their own.
const maxHandshakes = 512

// handshakes are the RTMP connections that have not said yet what they want, the oldest first. Clients say it within a few
// round trips. So the oldest connection gives way to a new one: clients that say nothing keep no others out.
type handshakes struct {
	mu    lock.Mutex
	conns []net.Conn
}

// errCrowded ends a connection that gave way to a new one.
var errCrowded = errors.New("it said nothing until there were too many connections that say nothing")

// add adds conn, which it borrows until remove. It closes the oldest connection if there are more than maxHandshakes.
func (h *handshakes) add(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, conn)
	if len(h.conns) > maxHandshakes {
		_ = h.conns[0].Close()
		h.conns = slices.Delete(h.conns, 0, 1)
	}
}

// remove removes conn. It reports false if add has closed conn.
func (h *handshakes) remove(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.conns, conn)
	if i >= 0 {
		h.conns = slices.Delete(h.conns, i, i+1)
	}
	return i >= 0
}

//go:build linux || darwin

package server

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// gatherBytes is what one look at a publisher's connection should find at most. More would fill the kernel's
	// receive buffer and slow the publisher down, and writing more at a time to viewers costs no less per byte.
	gatherBytes = 48 << 10
	// tellBytes is how much of a flood is read before viewers are told. An encoder's stream never gets there.
	tellBytes = 64 << 10
	// shortestPause keeps a flood from becoming a loop.
	shortestPause = time.Millisecond
)

// A polled is a connection that is read from time to time instead of when something has arrived. With a latency bound there is
// no hurry, and each packet that wakes the process costs more than reading it does. So the connection is taken out of the
// runtime's poller, and looked at once within the bound. All connections are looked at in the same moments, so that a wake-up
// serves many.
type polled struct {
	descriptor
	bound time.Duration
	tell  func() // called when everything that was there has been read

	since  int64 // when everything had been read; see now
	got    int64 // bytes since
	untold int   // bytes since tell was called
}

// newPolled takes over conn's descriptor and closes conn. If conn has none, it returns nil and leaves conn as it was.
func newPolled(conn net.Conn, bound, idle time.Duration, draining context.Context, tell func()) *polled {
	d, ok := newDescriptor(conn, idle, draining)
	if !ok {
		return nil
	}
	return &polled{descriptor: d, bound: bound, tell: tell, since: d.heard}
}

// Read implements io.Reader: it returns what has arrived, and waits for that if need be.
func (c *polled) Read(p []byte) (int, error) {
	if c.drained {
		c.pause()
	} else if c.untold >= tellBytes {
		c.untold = 0
		c.tell()
	}
	for {
		n, err := c.take(p)
		if err != errNothing {
			c.got += int64(n)
			c.untold += n
			return n, err
		}
		c.pause()
	}
}

// pause waits until it is time to look again.
func (c *polled) pause() {
	c.untold = 0
	c.tell()
	at := now()
	next := nextLook(at, c.since, c.got, c.bound)
	c.since, c.got = at, 0
	time.Sleep(time.Duration(next - at))
}

// nextLook says when to look at a connection that gave got bytes between since and at: after the bound, or earlier when more
// than gatherBytes would be there by then. Looks fall on ticks of a tenth of the bound, which all connections share.
func nextLook(at, since, got int64, bound time.Duration) int64 {
	wait := int64(bound)
	if got > gatherBytes {
		wait = min(wait, (at-since)*gatherBytes/got)
	}
	tick := int64(bound / 10)
	if wait < tick {
		return at + max(wait, int64(shortestPause))
	}
	return (at + wait) / tick * tick
}

// CloseWrite tells the publisher that nothing more will come. From now on it may be silent for lingerTime.
func (c *polled) CloseWrite() error {
	c.idle = lingerTime
	c.heard = now()
	return unix.Shutdown(c.fd, syscall.SHUT_WR)
}

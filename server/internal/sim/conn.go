package sim

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// window is how many bytes may be on their way to a host and in its receive buffer.
const window = 256 << 10

// A Conn is one end of a connection. Network.mu guards its fields.
type Conn struct {
	local, remote *Process
	laddr, raddr  net.Addr
	peer          *Conn

	arriving []packet      // sent by peer, and not read yet
	held     int           // bytes in arriving, and bytes read that peer does not know of yet
	free     time.Time     // the last byte of arriving is there
	err      error         // why the connection has failed
	resets   bool          // peer has reset the connection, and this end learns of it
	eof      bool          // peer has closed its side; it is known here after arriving
	shut     bool          // this end has closed its side
	closed   bool          // Close was called here
	orphan   bool          // peer has lost its power
	waking   chan struct{} // closed and replaced when something changes

	readLimit, writeLimit time.Time
}

// A packet arrives at a certain time, if the link is not cut.
type packet struct {
	bytes []byte
	at    time.Time
}

// newPair returns the ends of a connection between two hosts. The caller must hold Network.mu.
func newPair(a, b *Process, aAddr, bAddr net.Addr) (*Conn, *Conn) {
	x := &Conn{local: a, remote: b, laddr: aAddr, raddr: bAddr, waking: make(chan struct{})}
	y := &Conn{local: b, remote: a, laddr: bAddr, raddr: aAddr, waking: make(chan struct{})}
	x.peer, y.peer = y, x
	n := a.host.net
	n.conns[x], n.conns[y] = true, true
	return x, y
}

func (c *Conn) between(a, b string) bool {
	local, remote := c.local.host.name, c.remote.host.name
	return local == a && remote == b || local == b && remote == a
}

// wake wakes the goroutines that read from c or write to it. The caller must hold Network.mu.
func (c *Conn) wake() {
	close(c.waking)
	c.waking = make(chan struct{})
}

// fail ends c with an error. The caller must hold Network.mu.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	delete(c.local.host.net.conns, c)
	c.wake()
}

// reset tells c that its peer has reset the connection. The caller must hold Network.mu.
func (c *Conn) reset() {
	c.resets = true
	c.wake()
}

// state returns the error with which reads and writes end now. The caller must hold Network.mu.
func (c *Conn) state() error {
	n := c.local.host.net
	switch {
	case c.err != nil:
		return c.err
	case c.closed:
		return net.ErrClosed
	case c.resets && !n.link(c.remote.host.name, c.local.host.name).cut:
		c.fail(syscall.ECONNRESET)
		return c.err
	}
	return nil
}

// await waits until something changes at c, or until the time at, which may be zero. The caller
// must hold Network.mu, which is unlocked during the wait.
func (c *Conn) await(at time.Time) {
	waking := c.waking
	c.local.host.net.mu.Unlock()
	defer c.local.host.net.mu.Lock()
	if at.IsZero() {
		<-waking
		return
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-waking:
	case <-timer.C:
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func isOver(limit time.Time) bool { return !limit.IsZero() && !time.Now().Before(limit) }

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "sim", Source: c.laddr, Addr: c.raddr, Err: err}
}

func (c *Conn) Read(p []byte) (int, error) {
	n := c.local.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if c.local.paused && c.err == nil && !c.closed {
			c.await(time.Time{})
			continue
		}
		if err := c.state(); err != nil {
			return 0, c.opError("read", err)
		}
		if isOver(c.readLimit) {
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		}
		if len(p) == 0 {
			return 0, nil
		}
		cut := n.link(c.remote.host.name, c.local.host.name).cut
		var next time.Time
		if len(c.arriving) > 0 && !cut {
			if next = c.arriving[0].at; !next.After(time.Now()) {
				return c.take(p), nil
			}
		}
		if c.eof && len(c.arriving) == 0 && !cut {
			return 0, io.EOF
		}
		c.await(earlier(next, c.readLimit))
	}
}

// take moves bytes that have arrived to p. The caller must hold Network.mu.
func (c *Conn) take(p []byte) (got int) {
	for now := time.Now(); len(c.arriving) > 0 && got < len(p); {
		first := &c.arriving[0]
		if first.at.After(now) {
			break
		}
		n := copy(p[got:], first.bytes)
		got += n
		if first.bytes = first.bytes[n:]; len(first.bytes) == 0 {
			c.arriving = c.arriving[1:]
		}
	}
	c.release()
	return got
}

// release makes room for the peer, unless the link to it is cut: then the peer learns of it with
// the next bytes. The caller must hold Network.mu.
func (c *Conn) release() {
	if c.local.host.net.link(c.local.host.name, c.remote.host.name).cut {
		return
	}
	held := 0
	for i := range c.arriving {
		held += len(c.arriving[i].bytes)
	}
	if c.held = held; held < window {
		c.peer.wake()
	}
}

func (c *Conn) Write(p []byte) (sent int, err error) {
	n := c.local.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if c.local.paused && c.err == nil && !c.closed {
			c.await(time.Time{})
			continue
		}
		if err := c.state(); err != nil {
			return sent, c.opError("write", err)
		}
		switch {
		case c.shut, c.peer.closed && !n.link(c.remote.host.name, c.local.host.name).cut:
			return sent, c.opError("write", syscall.EPIPE)
		case isOver(c.writeLimit):
			return sent, c.opError("write", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return sent, nil
		case c.orphan && !c.remote.host.off: // the host knows nothing of the connection
			c.fail(syscall.ECONNRESET)
			continue
		}
		to := c.peer
		if to.held >= window {
			if to.release(); to.held >= window {
				c.await(c.writeLimit)
				continue
			}
		}
		k := min(len(p), window-to.held)
		at := time.Now().Add(n.link(c.local.host.name, c.remote.host.name).delay)
		if at.Before(to.free) {
			at = to.free
		}
		to.free = at
		to.arriving = append(to.arriving, packet{append([]byte(nil), p[:k]...), at})
		to.held += k
		sent, p = sent+k, p[k:]
		to.wake()
	}
}

// CloseWrite ends the bytes that this end sends.
func (c *Conn) CloseWrite() error {
	n := c.local.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.shut = true; !c.local.host.off {
		c.peer.eof = true
		c.peer.wake()
	}
	return nil
}

// Close closes the connection. If there are unread bytes, the peer's end is reset.
func (c *Conn) Close() error {
	n := c.local.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	dead := c.err != nil
	delete(n.conns, c)
	c.wake()
	if dead || c.local.host.off {
		return nil
	}
	tell := func() {
		if len(c.arriving) > 0 {
			c.peer.resets = true
		}
		c.peer.eof = true
		c.peer.wake()
	}
	if c.local.paused {
		c.local.resume = append(c.local.resume, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			tell()
		})
		return nil
	}
	tell()
	return nil
}

func (c *Conn) LocalAddr() net.Addr  { return c.laddr }
func (c *Conn) RemoteAddr() net.Addr { return c.raddr }

// SetDeadline limits reads and writes.
func (c *Conn) SetDeadline(t time.Time) error { return c.setLimits(&t, &t) }

// SetReadDeadline limits reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setLimits(&t, nil) }

// SetWriteDeadline limits writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setLimits(nil, &t) }

func (c *Conn) setLimits(read, write *time.Time) error {
	c.local.host.net.mu.Lock()
	defer c.local.host.net.mu.Unlock()
	if read != nil {
		c.readLimit = *read
	}
	if write != nil {
		c.writeLimit = *write
	}
	c.wake()
	return nil
}

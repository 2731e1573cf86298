//go:build linux || darwin

package server

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// gatherBytes is what one look at a publisher's connection should find at most. More would fill the kernel's receive buffer
	// and slow the publisher down, and writing more at a time to viewers costs no less a byte.
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
	fd       int
	bound    time.Duration
	idle     time.Duration
	draining context.Context
	tell     func() // called when everything that was there has been read

	drained bool  // the last read took everything that was there
	since   int64 // when it did; see now
	got     int64 // bytes since
	untold  int   // bytes since tell was called
	heard   int64 // when something came last
}

// newPolled takes conn's descriptor over and closes conn. It returns nil, and conn is as it was, if conn has none.
func newPolled(conn net.Conn, bound, idle time.Duration, draining context.Context, tell func()) *polled {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	dup := -1
	// The copy shares the connection and its non-blocking mode, and is in nobody's poller.
	if raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }) != nil || err != nil {
		return nil
	}
	_ = conn.Close()
	at := now()
	return &polled{fd: dup, bound: bound, idle: idle, draining: draining, tell: tell, since: at, heard: at}
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
		if c.draining.Err() != nil {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := unix.Read(c.fd, p)
		switch {
		case n > 0:
			c.drained = n < len(p)
			c.got += int64(n)
			c.untold += n
			c.heard = now()
			return n, nil
		case err == nil:
			return 0, io.EOF
		case err == unix.EINTR:
			continue
		case err != unix.EAGAIN:
			return 0, os.NewSyscallError("read", err)
		case now()-c.heard > int64(c.idle):
			return 0, os.ErrDeadlineExceeded
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

// Write implements io.Writer, for an answer: what the kernel does not take at once is given up.
func (c *polled) Write(p []byte) (int, error) {
	n, err := unix.Write(c.fd, p)
	if n < len(p) && err == nil {
		err = io.ErrShortWrite
	}
	return max(n, 0), err
}

// CloseWrite tells the publisher that nothing more will come. From now on it may be silent for lingerTime.
func (c *polled) CloseWrite() error {
	c.idle = lingerTime
	c.heard = now()
	return unix.Shutdown(c.fd, syscall.SHUT_WR)
}

func (c *polled) Close() error { return unix.Close(c.fd) }

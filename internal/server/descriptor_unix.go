//go:build linux || darwin

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A descriptor is a publisher's connection outside the runtime's poller, which would wake a goroutine for each packet. Its
// reads do not wait. One goroutine at a time may use it.
type descriptor struct {
	fd       int
	idle     time.Duration
	draining context.Context

	drained bool  // the last read took everything that was there
	heard   int64 // when something came last; see now
}

// errNothing says that nothing has arrived.
var errNothing = errors.New("server: nothing has arrived")

// newDescriptor takes over conn's descriptor and closes conn. If conn has none, it returns false and leaves conn as it
// was.
func newDescriptor(conn net.Conn, idle time.Duration, draining context.Context) (descriptor, bool) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return descriptor{}, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return descriptor{}, false
	}
	dup := -1
	// The copy shares the connection and its non-blocking mode, and is in nobody's poller.
	if raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }) != nil || err != nil {
		return descriptor{}, false
	}
	_ = conn.Close()
	return descriptor{fd: dup, idle: idle, draining: draining, heard: now()}, true
}

// take reads what has arrived. It returns errNothing if nothing has, and os.ErrDeadlineExceeded if nothing has for too
// long or if the server shuts down.
func (d *descriptor) take(p []byte) (int, error) {
	for {
		if d.draining.Err() != nil {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := d.read(p)
		switch {
		case n > 0:
			d.drained = n < len(p)
			d.heard = now()
			return n, nil
		case err == nil:
			return 0, io.EOF
		case err == unix.EINTR:
			continue
		case err != unix.EAGAIN:
			return 0, os.NewSyscallError("read", err)
		case now()-d.heard > int64(d.idle):
			return 0, os.ErrDeadlineExceeded
		}
		return 0, errNothing
	}
}

// Write implements io.Writer, for an answer: what the kernel does not take at once is given up.
func (d *descriptor) Write(p []byte) (int, error) {
	n, err := unix.Write(d.fd, p)
	if n < len(p) && err == nil {
		err = io.ErrShortWrite
	}
	return max(n, 0), err
}

// Close implements io.Closer.
func (d *descriptor) Close() error { return unix.Close(d.fd) }

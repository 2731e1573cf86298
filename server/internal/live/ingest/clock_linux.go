package ingest

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
)

const (
	// minBeat is the minimum interval between reads. If Config.Beat is shorter, connections are
	// read as bytes arrive.
	minBeat = 5 * time.Millisecond
	// If more than gatherBytes bytes are read between two pauses, the next pause is at most
	// floodPause. Otherwise the bytes could fill the kernel's receive buffer and slow the publisher
	// down.
	gatherBytes = 48 << 10
	floodPause  = time.Millisecond
	// If bytes keep arriving without a pause, Session.Flush is called after every flushBytes bytes.
	// A live encoder usually sends fewer bytes between two pauses.
	flushBytes = 64 << 10
)

// ByClock reports whether plain TCP and Unix connections are read at regular intervals of the
// duration beat. If this duration is too short, these connections are read as bytes arrive. All
// other connections are always read as bytes arrive.
func ByClock(beat time.Duration) bool { return beat >= minBeat }

// A clockConn reads a connection at regular intervals, because it costs more to wake the process
// for a packet than to read the packet. All connections are read at the same times, so that they
// share one wake-up. The connection is not in the runtime's poller, which would wake the process
// for each packet.
type clockConn struct {
	session Session
	fd      int
	cfg     Config

	empty     bool          // the last read emptied the receive buffer
	got       int           // bytes since the last pause
	flushed   int           // value of got at the last call to Flush
	lastInput time.Duration // time of the last input; see sinceStart
}

// newClockConn returns a Conn that reads conn at regular intervals. It returns nil, and does
// nothing to conn, if cfg.Beat is too short, if conn is not a plain TCP or Unix connection, or if
// no file descriptor is free.
func newClockConn(conn net.Conn, s Session, cfg Config) Conn {
	if !ByClock(cfg.Beat) {
		return nil
	}
	var plain syscall.Conn
	if tcp := tcpconn.Plain(conn); tcp != nil {
		plain = tcp
	} else if u, ok := conn.(*net.UnixConn); ok {
		plain = u
	} else {
		return nil
	}
	// Duplicate the file descriptor. The duplicate shares the connection and its non-blocking mode,
	// but the runtime's poller does not watch the duplicate.
	fd := -1
	if raw, err := plain.SyscallConn(); err == nil {
		_ = raw.Control(func(of uintptr) { fd, _ = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	}
	if fd < 0 { // the process has reached its limit of descriptors
		return nil
	}
	_ = conn.Close()
	return &clockConn{session: s, fd: fd, cfg: cfg, lastInput: sinceStart()}
}

var start = time.Now()

// sinceStart returns the time on a clock that all connections share. Connections are usually read
// when this time is a multiple of Config.Beat.
func sinceStart() time.Duration { return time.Since(start) }

// Read reads bytes that have arrived. If the previous read emptied the kernel's receive buffer,
// Read first waits until the next beat.
func (c *clockConn) Read(p []byte) (int, error) {
	for {
		if c.empty {
			c.pause()
		} else if c.got-c.flushed >= flushBytes {
			c.flushed = c.got
			c.session.Flush()
		}
		if c.session.Lifetime().Err() != nil {
			return 0, os.ErrDeadlineExceeded
		}
		// RawSyscall suffices, because the call does not block. Syscall would inform the scheduler,
		// which would wake the runtime's monitor at each read.
		r, _, errno := unix.RawSyscall(unix.SYS_READ,
			uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch n := int(r); {
		case errno == 0 && n > 0:
			c.empty = n < len(p)
			c.got += n
			c.lastInput = sinceStart()
			c.session.Received(n)
			return n, nil
		case errno == 0:
			return 0, io.ErrUnexpectedEOF
		case errno == unix.EAGAIN:
			if sinceStart()-c.lastInput > c.cfg.Silence {
				return 0, errSilent(c.cfg.Silence)
			}
			c.empty = true
		case errno != unix.EINTR:
			return 0, os.NewSyscallError("read", errno)
		}
	}
}

// Write sends an answer to the publisher without waiting. If the kernel's buffers are full, Write
// returns an error, because the publisher does not read the answers.
func (c *clockConn) Write(p []byte) (int, error) {
	n, err := unix.Write(c.fd, p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return max(n, 0), os.NewSyscallError("write", err)
}

// pause calls Session.Flush, and then waits until the next read. If more than gatherBytes bytes
// have arrived since the previous pause, pause waits for at most floodPause.
func (c *clockConn) pause() {
	c.session.Flush()
	wait := c.cfg.Beat - sinceStart()%c.cfg.Beat
	if c.got > gatherBytes {
		wait = min(wait, floodPause)
	}
	c.got, c.flushed = 0, 0
	time.Sleep(wait)
}

func (c *clockConn) Release() (net.Conn, error) {
	f := os.NewFile(uintptr(c.fd), "publisher")
	defer f.Close()
	return net.FileConn(f)
}

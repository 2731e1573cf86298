package relay

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// leastBeat is the smallest latency bound with which publishers are read by the clock.
	leastBeat = 5 * time.Millisecond
	// gatherBytes is what a read should find at most: more would fill the kernel's receive buffer and slow the publisher
	// down.
	gatherBytes = 48 << 10
	// floodPause is how long a read waits after one that found more.
	floodPause = time.Millisecond
	// flushBytes is how much of a flood is read before viewers are served. An encoder's stream never gets there.
	flushBytes = 64 << 10
)

// A timedReader reads a publisher's connection once a beat, and not as packets arrive: a packet that wakes the process
// costs more than reading it does. Beats are the same for all connections, so that one wake-up serves all. The
// connection is outside of the runtime's poller, which each packet would wake all the same.
type timedReader struct {
	p     *Publisher
	fd    int
	beat  time.Duration
	flush func() // called when all that had arrived has been read

	empty   bool // the last read took everything that was there
	got     int  // bytes since the last pause
	flushed int  // of these, before the last call of flush
}

// newTimedReader takes ownership of conn, which is a TCP or Unix connection.
func newTimedReader(conn net.Conn, p *Publisher) *timedReader {
	fd := -1
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			// The copy shares the connection and its non-blocking mode, and is in no poller. Without a copy, reads fail.
			_ = raw.Control(func(of uintptr) { fd, _ = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
		}
	}
	_ = conn.Close()
	return &timedReader{p: p, fd: fd, beat: max(p.s.hub.cfg.Latency, leastBeat), flush: p.Flush}
}

// Read implements io.Reader. It returns io.ErrUnexpectedEOF when the connection ends, because a publisher says
// before that where its stream ends, and another error after Config.PublishTimeout without data. It waits for the next beat when it is called after everything has been read.
func (t *timedReader) Read(p []byte) (int, error) {
	for {
		if t.empty {
			t.pause()
		} else if t.got-t.flushed >= flushBytes {
			t.flushed = t.got
			t.flush()
		}
		if t.p.ctx.Err() != nil {
			return 0, os.ErrDeadlineExceeded
		}
		// Raw, because the call does not wait: telling the scheduler of it would wake the runtime's monitor at each beat.
		r, _, errno := unix.RawSyscall(unix.SYS_READ,
			uintptr(t.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch n := int(r); {
		case errno == 0 && n > 0:
			t.empty = n < len(p)
			t.got += n
			t.p.received(n)
			return n, nil
		case errno == 0:
			return 0, io.ErrUnexpectedEOF
		case errno == unix.EAGAIN:
			if idle := t.p.s.hub.cfg.PublishTimeout; now()-t.p.heard.Load() > int64(idle) {
				return 0, errSilent(idle)
			}
			t.empty = true
		case errno != unix.EINTR:
			return 0, os.NewSyscallError("read", errno)
		}
	}
}

// Write implements io.Writer for answers of a few bytes. It does not wait: a publisher that takes no answers is no longer
// listening.
func (t *timedReader) Write(p []byte) (int, error) {
	n, err := unix.Write(t.fd, p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return max(n, 0), os.NewSyscallError("write", err)
}

// pause has the viewers served, and waits for the next beat.
func (t *timedReader) pause() {
	t.flush()
	wait := t.beat - time.Duration(now())%t.beat
	if t.got > gatherBytes {
		wait = min(wait, floodPause)
	}
	t.got, t.flushed = 0, 0
	time.Sleep(wait)
}

// conn ends t, and returns its connection for the answer.
func (t *timedReader) conn() (net.Conn, error) {
	f := os.NewFile(uintptr(t.fd), "publisher")
	defer f.Close()
	return net.FileConn(f)
}

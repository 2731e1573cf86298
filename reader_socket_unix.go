//go:build unix

package millrace

import (
	"io"
	"net"
	"os"
	"syscall"
)

// socket lets a Reader wait for its connection without holding a block.
type socket struct {
	b    *Reader
	conn net.Conn
	raw  syscall.RawConn
	try  func(fd uintptr) bool // tryRead; stored here so that a read allocates nothing

	room, n int // last read: size of the memory, and number of bytes read
	err     error
}

// newSocket returns a socket for src, or nil if src is not known to be a stream socket. It accepts
// only the net package's own types, because a type that embeds one may have buffered bytes.
func newSocket(b *Reader, src io.Reader) *socket {
	var raw syscall.RawConn
	var err error
	switch conn := src.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		if a := conn.LocalAddr(); a == nil || a.Network() != "unix" {
			return nil // datagrams have boundaries, which only src.Read respects
		}
		raw, err = conn.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil // a closed connection: its Read returns the error
	}
	s := &socket{b: b, conn: src.(net.Conn), raw: raw}
	s.try = s.tryRead
	return s
}

// receive waits until the socket is readable and then reads once. It must be called only if no
// bytes are buffered.
func (s *socket) receive() {
	s.n, s.room, s.err = 0, 0, nil
	err := s.raw.Read(s.try)
	if err == nil {
		err = s.err
	} else if e, ok := err.(*net.OpError); ok {
		e.Op = "read" // deadline or close: use the text of conn.Read's error
	}
	s.b.recordRead(s.n, s.room, err)
}

// tryRead reads once. If it returns false, the runtime calls it again when fd is readable.
func (s *socket) tryRead(fd uintptr) bool {
	p := s.b.makeRoom()
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			s.b.park()
			return false
		case err != nil:
			s.err = &net.OpError{Op: "read", Net: s.conn.LocalAddr().Network(),
				Source: s.conn.LocalAddr(),
				Addr:   s.conn.RemoteAddr(), Err: os.NewSyscallError("read", err)}
		case n == 0:
			s.err = io.EOF
		}
		s.n, s.room = max(n, 0), len(p)
		return true
	}
}

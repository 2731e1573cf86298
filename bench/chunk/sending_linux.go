package chunk

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var sendSplice = []Sender{{"splice into a pipe, splice into the connection", openSplice}}

// A splicer moves pages of a file through a pipe of its own.
type splicer struct {
	file, in, out int // the pipe's ends are in and out
	conn          syscall.RawConn

	held  int                   // bytes in the pipe
	err   error                 // of the last move out of it
	drain func(fd uintptr) bool // the method, made a function once
}

func openSplice(f *os.File, to *net.TCPConn, piece int) (*sending, error) {
	conn, err := to.SyscallConn()
	if err != nil {
		return nil, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	s := &splicer{file: int(f.Fd()), in: pipe[1], out: pipe[0], conn: conn}
	s.drain = s.move
	return &sending{
		send: func(off int64) error { return s.send(off, piece) },
		close: func() {
			unix.Close(s.in)
			unix.Close(s.out)
		},
	}, nil
}

func (s *splicer) send(off int64, piece int) error {
	for left := piece; left > 0; {
		n, err := unix.Splice(s.file, &off, s.in, nil, left, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("splice", err)
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		s.held = int(n)
		left -= s.held
		if err := s.conn.Write(s.drain); err != nil {
			return err
		}
		if s.err != nil {
			return os.NewSyscallError("splice", s.err)
		}
	}
	return nil
}

// move empties the pipe into the connection. It returns false when there is no room, and is called again when there is.
func (s *splicer) move(fd uintptr) bool {
	for s.held > 0 && s.err == nil {
		switch n, err := unix.Splice(s.out, nil, int(fd), nil, s.held, unix.SPLICE_F_NONBLOCK); err {
		case nil:
			s.held -= int(n)
		case unix.EAGAIN:
			return false
		case unix.EINTR:
		default:
			s.err = err
		}
	}
	return true
}

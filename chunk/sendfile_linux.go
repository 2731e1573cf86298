package chunk

import (
	"io"
	"net"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sendMost is what one sendfile may be asked for. The call does not return before the socket is full or that is done, at
// ten bytes a nanosecond, and the scheduler has to wait for one that is quick.
const sendMost = 1 << 20

// canSendfile says that a fileRange that is shared can be sent without its bytes coming to this process.
const canSendfile = true

// sendTo sends what is left of f to w's socket or pipe by sendfile. It returns errUnhandled if w has none, or if the
// kernel refuses, before or amid the transfer; then off says where to go on.
func (f *fileRange) sendTo(w io.Writer) error {
	to := writable(w)
	if to == nil {
		return errUnhandled
	}
	s := senders.Get().(*sender)
	defer s.free()
	for f.off < f.end {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		if f.buffer > 0 && s.waits > 0 && f.end-f.off > sendStep {
			s.buffer.open(to, f.buffer)
		}
		n, err := f.ready(sendStep)
		if err != nil {
			return err
		}
		if f.tally.progress != nil {
			n = min(n, sendMost)
		}
		sent, err := s.send(to, f, n)
		f.off += sent
		f.tally.add(&f.tally.Sendfile, sent)
		if err != nil {
			return f.ended(err)
		}
	}
	return nil
}

// writable returns the socket or pipe that bytes written to w go to and nowhere else, or nil. Only types of the standard
// library are known to be that: any other one with a SyscallConn may have got it from a connection that it wraps, and
// encrypt or count what is written.
func writable(w io.Writer) syscall.Conn {
	switch w := w.(type) {
	case *net.TCPConn:
		return w
	case *net.UnixConn:
		if !isStream(w) {
			return nil
		}
		return w
	case *os.File:
		if !isPipe(w) {
			return nil
		}
		return w
	}
	v := reflect.ValueOf(w)
	if v.Type().PkgPath() != "net" {
		return nil
	}
	// What TCPConn.ReadFrom gives to a source that it does not know: itself, without its ReadFrom.
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() {
				if conn, ok := f.Interface().(*net.TCPConn); ok {
					return conn
				}
			}
		}
	}
	c, _ := w.(syscall.Conn)
	return c
}

// A sender is one step of a transfer: sendfile as often as it takes. They are kept between transfers, because the closure
// that waits for the socket, and the offset that the kernel writes to, would be two allocations for each.
//
// Invariant: 0 ≤ left.
type sender struct {
	to     syscall.Conn
	in     int
	off    int64
	own    bool // the file's own position is used instead of off
	left   int64
	quick  bool      // sendfile does not have to wait for a disk
	asked  time.Time // since when that is known
	waits  int       // for the socket
	alarm  *alarm    // or nil
	buffer wide
	err    error

	withFile func(fd uintptr)      // of s.run
	write    func(fd uintptr) bool // of s.step
}

var senders = sync.Pool{New: func() any {
	s := new(sender)
	s.withFile, s.write = s.run, s.step
	return s
}}

func (s *sender) free() {
	s.buffer.close()
	s.to, s.alarm, s.err, s.waits = nil, nil, nil, 0
	senders.Put(s)
}

// send moves up to n bytes of f, and returns how many. A file that ends before is an io.EOF.
func (s *sender) send(to syscall.Conn, f *fileRange, n int64) (int64, error) {
	s.to, s.alarm, s.off, s.own, s.left = to, f.alarm, f.off, f.own, n
	s.quick, s.asked, s.waits, s.err = f.quick, f.asked, 0, nil
	if err := control(f.file, s.withFile); err != nil {
		return 0, err
	}
	return n - s.left, s.err
}

// run is called while the file cannot be closed.
func (s *sender) run(fd uintptr) {
	s.in = int(fd)
	if err := writeRaw(s.to, s.write); err != nil {
		s.err = err
	}
}

// step is called while nobody else writes to the socket, and again when it has room. After a long wait it leaves the rest
// to a later send, because the bytes may no longer be in the page cache.
func (s *sender) step(fd uintptr) (done bool) {
	if s.waits > 0 && s.quick && time.Since(s.asked) > verdictLife {
		return true
	}
	for s.left > 0 {
		n, err := s.sendfile(int(fd), int(min(s.left, sendMost)))
		switch err {
		case nil:
			if n == 0 {
				s.err = io.EOF
				return true
			}
			s.left -= int64(n)
		case unix.EINTR:
		case unix.EAGAIN:
			s.waits++
			s.alarm.set()
			return false
		case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.ESPIPE, unix.EOVERFLOW:
			s.err = errUnhandled // what has no positions, or no such ones, is read: that says what is wrong, or the end
			return true
		default:
			s.err = os.NewSyscallError("sendfile", err)
			return true
		}
	}
	return true
}

func (s *sender) sendfile(out, most int) (int, error) {
	if s.quick {
		return sendfileQuick(out, s.in, &s.off, most)
	}
	if s.own {
		return syscall.Sendfile(out, s.in, nil, most)
	}
	return syscall.Sendfile(out, s.in, &s.off, most)
}

package chunk

import (
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A moreWriter is one Write with MSG_MORE. They are kept, because the closure that waits for the socket would be an
// allocation for each.
type moreWriter struct {
	left   []byte
	failed error

	write func(fd uintptr) bool // of step
}

var moreWriters = sync.Pool{New: func() any {
	w := new(moreWriter)
	w.write = w.step
	return w
}}

// step sends what the socket takes, and reports whether it need not wait.
func (w *moreWriter) step(fd uintptr) bool {
	for len(w.left) > 0 {
		n, err := sendMore(int(fd), w.left)
		w.left = w.left[n:]
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			w.failed = os.NewSyscallError("sendto", err)
			return true
		}
	}
	return true
}

// writeMore is Write with MSG_MORE.
func (c *Conn) writeMore(p []byte) (int, error) {
	w := moreWriters.Get().(*moreWriter)
	w.left, w.failed = p, nil
	err := writeRaw(c.TCPConn, w.write)
	if err == nil && w.failed != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: w.failed}
	}
	n := len(p) - len(w.left)
	w.left, w.failed = nil, nil
	moreWriters.Put(w)
	return n, err
}

package fanout

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/millrace-io/millrace"
	"golang.org/x/sys/unix"
)

// vectorLen is the maximum number of pieces in one system call. A batch has at most 64, and the
// response's head needs a few more. The kernel accepts 1024.
const vectorLen = 64 + 8

// A vector is the scratch memory of a goroutine that writes to viewers. It also counts the writes.
type vector struct {
	list [vectorLen]unix.Iovec
	tally
}

// A socketConn writes to the file descriptor of a connection, with one system call per batch.
type socketConn struct {
	streamConn
	raw syscall.RawConn
	fn  func(fd uintptr) bool // the method value s.writeFD; stored, because creating one allocates

	// Arguments and results of the current call.
	line     *[]byte
	chain    *millrace.Chain
	vec      *vector
	progress *atomic.Int64 // nil: the call must not wait
	full     bool
	err      error
}

// newSocketConn returns a Conn that writes to the socket of the connection with writev. It returns
// nil if the connection has no file descriptor.
func newSocketConn(base streamConn) Conn {
	c, ok := base.conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socketConn{streamConn: base, raw: raw}
	s.fn = s.writeFD
	return s
}

func (s *socketConn) path() path { return pathWritev }

func (s *socketConn) tryWrite(line *[]byte, c *millrace.Chain, vec *vector) (full bool, err error) {
	return s.writeAll(line, c, vec, nil)
}

var vectors = sync.Pool{New: func() any { return new(vector) }}

func (s *socketConn) write(line *[]byte, c *millrace.Chain, out *tally,
	progress *atomic.Int64) error {
	vec := vectors.Get().(*vector)
	defer vectors.Put(vec)
	defer out.take(&vec.tally)
	_, err := s.writeAll(line, c, vec, progress)
	return err
}

// writeAll writes *line and then the bytes in c to the socket. vec is scratch memory.
//
// If progress is nil, writeAll does not wait. It returns full = true if the kernel accepts no more
// bytes at present. If progress is not nil, writeAll waits until the kernel has accepted
// everything. Each time the kernel accepts some bytes, writeAll sets *progress to the current time.
func (s *socketConn) writeAll(line *[]byte, c *millrace.Chain, vec *vector,
	progress *atomic.Int64) (full bool, err error) {
	s.line, s.chain, s.vec, s.progress, s.full, s.err = line, c, vec, progress, false, nil
	err = s.raw.Write(s.fn)
	s.line, s.chain, s.vec, s.progress = nil, nil, nil, nil // so that s keeps nothing alive
	if err == nil {
		err = s.err
	}
	return s.full, err
}

// writeFD writes the remaining bytes of the current writeAll call to the socket fd. If it returns
// false, it must be called again when the socket accepts more bytes.
func (s *socketConn) writeFD(fd uintptr) bool {
	for len(*s.line)+s.chain.Len() > 0 {
		took, offered, errno := s.vec.writev(fd, *s.line, s.chain)
		s.vec.calls++
		s.vec.bytes += int64(took)
		ofLine := min(took, len(*s.line))
		*s.line = (*s.line)[ofLine:]
		s.chain.Discard(took - ofLine)
		switch {
		case errno == unix.EINTR:
		case errno != 0 && errno != unix.EAGAIN:
			s.err = errno
			return true
		case s.progress == nil && took < offered:
			s.full = true
			return true
		case errno == unix.EAGAIN:
			return false
		case s.progress != nil:
			s.progress.Store(nanotime())
		}
	}
	return true
}

// writev writes the bytes of line and then the first bytes of c to the socket fd, in one system
// call. It does not copy, wait or allocate. It writes only as many pieces of c as one system call
// can take. It borrows line and c, which must not both be empty. offered is the number of bytes
// passed to the kernel, and took is the number of bytes that the kernel has accepted.
func (vec *vector) writev(fd uintptr, line []byte, c *millrace.Chain) (took, offered int,
	errno unix.Errno) {
	n := 0
	if len(line) > 0 {
		vec.list[0].Base = &line[0]
		vec.list[0].SetLen(len(line))
		offered, n = len(line), 1
	}
	for piece := range c.All() {
		if n == len(vec.list) {
			break
		}
		vec.list[n].Base = &piece[0]
		vec.list[n].SetLen(len(piece))
		offered += len(piece)
		n++
	}
	// unix.Writev is not used, because it would allocate the list on the heap for each call.
	// RawSyscall suffices, because the call does not wait. Syscall would also prepare the scheduler
	// for a wait.
	r, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&vec.list[0])),
		uintptr(n))
	clear(vec.list[:n]) // so that vec keeps no block alive
	if errno != 0 {
		return 0, offered, errno
	}
	return int(r), offered, 0
}

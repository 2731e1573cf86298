package redisbuf

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawMost is how many bytes may move in a system call that the scheduler is not told of: it takes 10 to 20
// microseconds, for which nobody misses the processor. Telling the scheduler makes it look for other work, which costs
// more than that is worth.
const rawMost = 128 << 10

// vectors are for batches.
var vectors = sync.Pool{New: func() any { return new([manyPieces]unix.Iovec) }}

// A vectored moves a wire's bytes by writev and readv, and saves the system call that a net.Conn's Read begins with: it
// asks for a reply that cannot be there yet, only to be told to wait. Here the request is written from within the
// connection's read, after the poller has been told that what comes next is of interest; so the first thing after the
// write is to wait.
//
// Invariant: 0 ≤ got.
type vectored struct {
	w    *wire
	raw  syscall.RawConn
	need int
	got  int
	err  error

	writing bool // the request is to be written before anything is read
	list    [fewPieces]unix.Iovec

	onRead, onWrite func(fd uintptr) bool
}

// newVectored returns nil if w's connection is not known to be a plain stream socket. Only the net package's own types
// count: one that embeds them may encrypt or count what is written.
func newVectored(w *wire) *vectored {
	var raw syscall.RawConn
	var err error
	switch conn := w.conn.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		if a := conn.LocalAddr(); a == nil || a.Network() != "unix" {
			return nil
		}
		raw, err = conn.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil // its Write says so
	}
	v := &vectored{w: w, raw: raw}
	v.onRead, v.onWrite = v.readable, v.writable
	return v
}

// exchange is the wire's.
func (v *vectored) exchange(need int) (int, error) {
	v.writing = len(v.w.out) > 0
	n, err := v.receive(need)
	unfinished := v.writing
	v.writing = false
	if err != nil || !unfinished {
		return n, err
	}
	// The socket did not take all of it at once.
	if err := v.w.send(); err != nil {
		return 0, err
	}
	v.w.sent = true
	if err := v.w.use(v.w.readTimeout); err != nil {
		return 0, err
	}
	return v.receive(need)
}

// receive is the wire's. If v.writing still stands when it returns without an error, nothing was received, and the request
// is not written completely.
func (v *vectored) receive(need int) (int, error) {
	v.need, v.got, v.err = need, 0, nil
	for {
		err := v.raw.Read(v.onRead)
		if err == nil {
			return v.got, v.err
		}
		if err = v.w.goesOn(named(err, "read")); err != nil {
			return v.got, err
		}
	}
}

// readable is called by the runtime with the descriptor; false means: wait until there is something to read, then call
// again. A read that gave too little is followed by another one, whatever there was room for: if the end of the connection has
// come together with those bytes, nobody would be woken for it.
func (v *vectored) readable(fd uintptr) bool {
	if v.writing {
		if v.write(fd); v.err != nil || len(v.w.out) > 0 {
			return true
		}
		v.writing, v.w.sent = false, true
		return false
	}
	for {
		n, _, errno := v.call(unix.SYS_READV, fd, v.w.in[:])
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			v.err = v.opError("read", "readv", errno)
			return true
		case n == 0:
			v.err = io.EOF
			return true
		}
		took(v.w.in[:], n)
		v.w.moved = true
		if v.got += n; v.got >= v.need {
			return true
		}
	}
}

// send is the wire's.
func (v *vectored) send() error {
	for {
		v.err = nil
		err := v.raw.Write(v.onWrite)
		if err == nil {
			return v.err
		}
		if err = v.w.goesOn(named(err, "write")); err != nil {
			return err
		}
	}
}

// writable is called by the runtime with the descriptor; false means: wait until there is room.
func (v *vectored) writable(fd uintptr) bool {
	v.write(fd)
	return v.err != nil || len(v.w.out) == 0
}

// write writes what the socket takes at once.
func (v *vectored) write(fd uintptr) {
	w := v.w
	for len(w.out) > 0 {
		n, room, errno := v.call(unix.SYS_WRITEV, fd, w.out)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return
		default:
			v.err = v.opError("write", "writev", errno)
			return
		}
		w.moved = true
		w.written += int64(n)
		w.out = w.out[took(w.out, n):]
		if n < room {
			return
		}
	}
	w.unpush()
}

// call moves bytes between the socket and areas, and returns how many, and how many there could have been.
func (v *vectored) call(trap uintptr, fd uintptr, areas [][]byte) (n, room int, errno unix.Errno) {
	list := v.list[:]
	if len(areas) > len(list) {
		many := vectors.Get().(*[manyPieces]unix.Iovec)
		defer vectors.Put(many)
		list = many[:]
	}
	count := 0
	for _, p := range areas {
		if len(p) == 0 {
			continue
		}
		list[count].Base = &p[0]
		list[count].SetLen(len(p))
		room += len(p)
		count++
	}
	var r uintptr
	if room <= rawMost {
		r, _, errno = unix.RawSyscall(trap, fd, uintptr(unsafe.Pointer(&list[0])), uintptr(count))
	} else {
		r, _, errno = unix.Syscall(trap, fd, uintptr(unsafe.Pointer(&list[0])), uintptr(count))
	}
	clear(list[:count])
	if errno != 0 {
		return 0, room, errno
	}
	return int(r), room, 0
}

func (v *vectored) opError(op, call string, errno unix.Errno) error {
	a := v.w.conn.LocalAddr()
	return &net.OpError{Op: op, Net: a.Network(), Source: a, Addr: v.w.conn.RemoteAddr(), Err: os.NewSyscallError(call, errno)}
}

// named gives the error of a wait that was ended the name that the net package's own Read or Write would have given it.
func named(err error, op string) error {
	if e, ok := err.(*net.OpError); ok {
		e.Op = op
	}
	return err
}

package chunk

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/millrace-io/millrace"
	"golang.org/x/sys/unix"
)

// smallPart is up to how much it costs less to read from a socket and to write to another than to splice. A file or pipe is
// left to splice, which alone returns when it would have to wait for a descriptor that somebody has made one that blocks.
const smallPart = 16 << 10

func isSmallPart(limit int64, in, out syscall.Conn) bool {
	return limit <= smallPart && !isFile(in) && !isFile(out)
}

// partTo is spliceTo for a part of a stream that is small. It waits in the same way, so that nothing has to be prepared for
// bytes that have arrived and are taken at once. Out is dst's.
func partTo(ctx context.Context, t *tally, a *alarm, dst io.Writer, out, in syscall.Conn, limit int64) error {
	block := millrace.DefaultPool.Get(int(limit))
	defer block.Release()
	p := parts.Get().(*part)
	p.alarm = a
	defer p.free()
	for limit > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.fill(in, block.Bytes()[:limit]); err != nil || len(p.held) == 0 {
			return err
		}
		n := len(p.held)
		limit -= int64(n)
		err := p.drain(out)
		t.addSmall(n - len(p.held))
		if err == errUnhandled {
			n, err = writeAll(dst, p.held) // closed while it was waited for, as an ordinary Write says
			t.addSmall(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSmall counts n bytes that were copied though they could have been spliced.
func (t *tally) addSmall(n int) {
	t.Small += int64(n)
	t.add(&t.Copied, int64(n))
}

// A part is one step of partTo. They are kept between transfers for their functions, which would be two allocations.
type part struct {
	buf, held           []byte // what is read into; what of it is to be written
	alarm               *alarm // or nil
	failed              error
	fillFrom, drainInto func(fd uintptr) (done bool)
}

var parts = sync.Pool{New: func() any {
	p := new(part)
	p.fillFrom, p.drainInto = p.fillStep, p.drainStep
	return p
}}

func (p *part) free() {
	p.buf, p.held, p.alarm, p.failed = nil, nil, nil, nil
	parts.Put(p)
}

// fill reads what has arrived into buf, and waits for some if need be. At the end of the source nothing is held.
func (p *part) fill(in syscall.Conn, buf []byte) error {
	p.buf, p.held = buf, nil
	err := readRaw(in, p.fillFrom)
	if err = waited(err, p.failed); err != nil {
		return err
	}
	return p.failed
}

func (p *part) fillStep(fd uintptr) (done bool) {
	n, err := again(receive, fd, p.buf)
	if err == unix.EAGAIN {
		p.failed = err
		p.alarm.set()
		return false
	}
	p.held, p.failed = p.buf[:n], os.NewSyscallError("recvfrom", err)
	return true
}

// drain writes what is held.
func (p *part) drain(out syscall.Conn) error {
	err := writeRaw(out, p.drainInto)
	if err = waited(err, p.failed); err != nil {
		return err
	}
	return p.failed
}

func (p *part) drainStep(fd uintptr) (done bool) {
	for len(p.held) > 0 {
		n, err := again(send, fd, p.held)
		if err == unix.EAGAIN {
			p.failed = err
			p.alarm.set()
			return false
		}
		if p.failed = os.NewSyscallError("sendmsg", err); err != nil {
			return true
		}
		p.held = p.held[n:]
	}
	return true
}

// receive reads what has arrived into p, which is not empty, and does not wait even if the descriptor is one that blocks. It
// is unix.Recvfrom without the sender's address, which that allocates.
func receive(fd int, p []byte) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVFROM,
		uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// send writes what there is room for, as receive reads.
func send(fd int, p []byte) (int, error) {
	return unix.SendmsgN(fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// again makes a system call until no signal comes in between.
func again(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		if n, err := call(int(fd), p); err != unix.EINTR {
			return n, err
		}
	}
}

package chunk

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/millrace-io/millrace"
	"golang.org/x/sys/unix"
)

// To read so much and to write it costs less than to splice it. A pipe takes whole pages: from the second one on, to move
// them costs less than to fill them. A file could have more, but to ask whether it is a pipe costs what that would gain.
const (
	smallPart       = 16 << 10
	smallPartToFile = 4 << 10
)

func isSmallPart(limit int64, out syscall.Conn) bool {
	if isFile(out) {
		return limit <= smallPartToFile
	}
	return limit <= smallPart
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
			n, err = writeAll(dst, p.held) // an ordinary Write says why, or waits
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
	if err := waited(readRaw(in, p.fillFrom), p.failed); err != nil {
		return err
	}
	return p.failed
}

func (p *part) fillStep(fd uintptr) (done bool) {
	n, err := again(unix.Read, fd, p.buf)
	if err == unix.EAGAIN {
		p.failed = err
		p.alarm.set()
		return false
	}
	p.held, p.failed = p.buf[:max(n, 0)], os.NewSyscallError("read", err)
	return true
}

// drain writes what is held.
func (p *part) drain(out syscall.Conn) error {
	if err := waited(writeRaw(out, p.drainInto), p.failed); err != nil {
		return err
	}
	return p.failed
}

func (p *part) drainStep(fd uintptr) (done bool) {
	for len(p.held) > 0 {
		n, err := again(unix.Write, fd, p.held)
		if err == unix.EAGAIN {
			p.failed = err
			p.alarm.set()
			return false
		}
		p.failed = os.NewSyscallError("write", err)
		if err == nil && n == 0 {
			p.failed = errUnhandled
		}
		if p.failed != nil {
			return true
		}
		p.held = p.held[n:]
	}
	return true
}

// again makes a system call until no signal comes in between.
func again(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		if n, err := call(int(fd), p); err != unix.EINTR {
			return n, err
		}
	}
}

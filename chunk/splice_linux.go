package chunk

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/millrace-io/millrace"
	"golang.org/x/sys/unix"
)

// spliceMost is what one splice may be asked for: what a pipe holds if the system lets it grow, which the system does up
// to that size for everybody (/proc/sys/fs/pipe-max-size).
const spliceMost = 1 << 20

// sourceEnd returns the end that r is: a TCP connection, a Unix stream socket or a pipe; or nil.
func sourceEnd(r io.Reader) syscall.Conn {
	switch r := r.(type) {
	case *net.TCPConn:
		return r
	case *net.UnixConn:
		if isStream(r) {
			return r
		}
	case *os.File:
		if isPipe(r) {
			return r
		}
	}
	return nil
}

// targetEnd returns the end that w is: as sourceEnd, or any file, of which the kernel says what it can do.
func targetEnd(w io.Writer) syscall.Conn {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return writable(w)
}

func isFile(c syscall.Conn) bool {
	_, ok := c.(*os.File)
	return ok
}

func isTCP(c syscall.Conn) bool {
	_, ok := c.(*net.TCPConn)
	return ok
}

func isPipe(f *os.File) bool { return modeOf(f)&os.ModeNamedPipe != 0 }

// spliceable reports whether spliceTo can take from src.
func spliceable(src io.Reader) bool { return sourceEnd(src) != nil }

// spliceTo moves up to limit bytes from src to dst without their coming to this process's memory. It returns
// errUnhandled if the ends are not of the kinds that can do that, or the kernel refuses; then the caller can go on in
// another way.
//
// The bytes go through a pipe of their own even if one of the ends is a pipe. Moving them from one pipe to another
// costs next to nothing. But writing them keeps the pipe that they are in locked, and whoever writes to it or reads
// from it waiting.
//
// From a pipe to TCP it returns errUnhandled as well: there, copying is faster. Memory that was sent belongs to the
// connection until it has arrived, so that whoever writes to the pipe has to have other memory for each page, which costs
// more than to copy what is in the processor's cache once more. (Over a Unix socket it is read from where it is.)
func spliceTo(ctx context.Context, t *tally, a *alarm, dst io.Writer, src io.Reader, limit int64) error {
	in := sourceEnd(src)
	if in == nil {
		return errUnhandled
	}
	out := targetEnd(dst)
	if out == nil || isFile(in) && isTCP(out) {
		return errUnhandled
	}
	if isSmallPart(limit, in, out) {
		return partTo(ctx, t, a, dst, out, in, limit)
	}
	p := pipes.Get().(*pipe)
	if p.err != nil {
		return errUnhandled
	}
	p.alarm = a
	defer p.free()
	for limit > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := p.fill(in, limit)
		if err != nil || n == 0 {
			return err
		}
		limit -= int64(n)
		err = p.drain(out)
		t.add(&t.Splice, int64(n-p.held))
		if err == errUnhandled {
			err = p.salvage(t, dst)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A pipe is what bytes are moved through.
//
// Invariant: held bytes are in it, 0 unless a spliceTo is using it.
type pipe struct {
	pipeEnds
	held    int
	err     error // it could not be made
	cleanup runtime.Cleanup

	alarm               *alarm // or nil
	most                int
	woken               bool // the source is said to have something
	failed              error
	fillFrom, drainInto func(fd uintptr) (done bool)
}

type pipeEnds struct{ r, w int }

func (e pipeEnds) close() {
	_ = unix.Close(e.r)
	_ = unix.Close(e.w)
}

// pipes keeps those that are not in use until a garbage collection or two.
var pipes = sync.Pool{New: func() any {
	p := new(pipe)
	var fds [2]int
	if p.err = unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); p.err != nil {
		return p
	}
	p.r, p.w = fds[0], fds[1]
	p.fillFrom, p.drainInto = p.fillStep, p.drainStep
	_, _ = unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, spliceMost) // a smaller one works as well
	p.cleanup = runtime.AddCleanup(p, pipeEnds.close, p.pipeEnds)
	return p
}}

// free keeps the pipe for the next one, unless somebody's bytes were left in it.
func (p *pipe) free() {
	p.alarm, p.failed = nil, nil
	if p.held == 0 {
		pipes.Put(p)
		return
	}
	p.cleanup.Stop()
	p.close()
}

// fill moves up to limit bytes of what has arrived into the pipe, which is empty, and returns how many. It waits for some
// if need be. At the end of the source there are none.
func (p *pipe) fill(in syscall.Conn, limit int64) (int, error) {
	p.most, p.woken = int(min(limit, spliceMost)), false
	err := readRaw(in, p.fillFrom)
	if err = waited(err, p.failed); err != nil {
		return 0, err
	}
	return p.held, p.failed
}

// waited returns what it means that waiting for an end ended with err, after the last attempt had failed in its own way:
// errUnhandled if the runtime cannot wait for it, as for the pipes that most programs have as standard input and output.
func waited(err, failed error) error {
	if err != nil && failed == unix.EAGAIN && !errors.Is(err, os.ErrDeadlineExceeded) {
		return errUnhandled // and if it has been closed, an ordinary Read or Write says so
	}
	return err
}

func (p *pipe) fillStep(fd uintptr) (done bool) {
	p.held, p.failed = splice(int(fd), p.w, p.most)
	if p.held == 0 && (p.failed == nil || p.failed == unix.EAGAIN && p.woken) && isUrgent(fd) {
		p.failed = errUnhandled
	}
	if p.failed == unix.EAGAIN {
		p.alarm.set()
		p.woken = true
		return false // the pipe has room, so it is the source that is waited for
	}
	return true
}

// isUrgent reports whether a socket has received an out-of-band byte. Splice does not get past it, and takes it for the
// end if the peer has sent all. Looking for one before each wait would cost a system call for everybody, for a peer who
// sends one and then waits itself; when it sends on, or ends, it is seen.
func isUrgent(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil && fds[0].Revents&unix.POLLPRI != 0
}

// drain moves all that is in the pipe to the target. After an error the rest is still held.
func (p *pipe) drain(out syscall.Conn) error {
	err := writeRaw(out, p.drainInto)
	if err = waited(err, p.failed); err != nil {
		return err
	}
	return p.failed
}

func (p *pipe) drainStep(fd uintptr) (done bool) {
	for p.held > 0 {
		var n int
		n, p.failed = splice(p.r, int(fd), p.held)
		if p.failed == nil && n == 0 {
			p.failed = errUnhandled // an ordinary write says why
		}
		if p.failed == unix.EAGAIN {
			p.alarm.set()
			return false // the pipe has bytes, so it is the target that is waited for
		}
		if p.failed != nil {
			return true
		}
		p.held -= n
	}
	return true
}

// salvage writes what is in the pipe in the ordinary way, to a target that has no splice, such as a file that is only
// appended to. It returns errUnhandled if that went well.
func (p *pipe) salvage(t *tally, dst io.Writer) error {
	block := millrace.DefaultPool.Get(min(p.held, copyBlock))
	defer block.Release()
	for p.held > 0 {
		n, err := unix.Read(p.r, block.Bytes()[:min(p.held, copyBlock)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		p.held -= n
		n, err = writeAll(dst, block.Bytes()[:n])
		t.add(&t.Copied, int64(n))
		if err != nil {
			return err
		}
	}
	return errUnhandled
}

// splice moves up to most bytes. What the kernel cannot do for such descriptors is errUnhandled, and what would have to
// wait is unix.EAGAIN.
func splice(in, out, most int) (int, error) {
	for {
		n, err := syscall.Splice(in, nil, out, nil, most, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch err {
		case nil:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, err
		case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
			return 0, errUnhandled
		default:
			return 0, os.NewSyscallError("splice", err)
		}
	}
}

package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/leaktest"
	"golang.org/x/sys/unix"
)

// What a stream gives of a small part before it ends is copied.
func TestCopySmallPartThatEnds(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	w, r := tcpEnds(t)
	feed(t, w, []byte("not all"))
	dst, taker := unixEnds(t)
	got := drain(t, dst, taker)
	limited := &io.LimitedReader{R: r, N: 3000}
	report, err := chunk.Copy(t.Context(), dst, limited)
	if err != nil || report != (chunk.Report{Bytes: 7, Copied: 7, Small: 7}) || limited.N != 2993 || string(got()) != "not all" {
		t.Errorf("%+v, %v, %d left of the limit", report, err, limited.N)
	}
}

// A small part goes on where it was when little by little arrives, and where there is little room.
func TestCopySmallPartLittleByLittle(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	data := someBytes(16 << 10)
	feeder, src := tcpEnds(t)
	dst, taker := unixEnds(t)
	_ = dst.SetWriteBuffer(1)
	go func() {
		for _, b := range data {
			_, _ = feeder.Write([]byte{b})
		}
	}()
	taken := make(chan []byte)
	go func() {
		var all []byte
		for buf := make([]byte, 100); len(all) < len(data); {
			n, err := taker.Read(buf)
			if err != nil {
				break
			}
			all = append(all, buf[:n]...)
		}
		taken <- all
	}()
	calls := int64(0)
	report, err := chunk.Copy(t.Context(), dst, io.LimitReader(src, int64(len(data))), chunk.Progress(func(n int64) { calls++ }))
	if err != nil || report.Small != int64(len(data)) || calls < 2 {
		t.Errorf("%+v, %v, %d times", report, err, calls)
	}
	if got := <-taken; !bytes.Equal(got, data) {
		t.Errorf("%d other bytes arrived", len(got))
	}
}

// Nothing that the target did not take is counted, whatever kept it from that.
func TestCopySmallPartThatIsNotTaken(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	for _, c := range []struct {
		name string
		want error
		open func(t *testing.T) io.Writer
	}{
		{"the socket's other end is closed", unix.EPIPE, func(t *testing.T) io.Writer {
			w, r := unixEnds(t)
			r.Close()
			return w
		}},
		{"the socket is closed", net.ErrClosed, func(t *testing.T) io.Writer {
			w, _ := tcpEnds(t)
			w.Close()
			return w
		}},
		{"nobody reads any longer", unix.EPIPE, func(t *testing.T) io.Writer {
			r, w := pipeEnds(t)
			r.Close()
			return w
		}},
		{"closed", os.ErrClosed, func(t *testing.T) io.Writer {
			f, _ := newFile(t, 0)
			f.Close()
			return f
		}},
		{"no place", unix.ENOSPC, func(t *testing.T) io.Writer {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}},
		{"full, and the runtime cannot wait for it", unix.EAGAIN, func(t *testing.T) io.Writer {
			_, w := pipeEnds(t)
			fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 0) // Fd has made the pipe one that blocks
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), "full")
			t.Cleanup(func() { f.Close() })
			_ = unix.SetNonblock(fd, true)
			for err == nil {
				_, err = unix.Write(fd, make([]byte, 4096))
			}
			return f
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := c.open(t)
			w, r := tcpEnds(t)
			feed(t, w, make([]byte, 3000))
			report, err := chunk.Copy(t.Context(), dst, io.LimitReader(r, 3000))
			if !errors.Is(err, c.want) || report != (chunk.Report{}) {
				t.Errorf("%+v, %v, want %v", report, err, c.want)
			}
		})
	}
}

// A socket or pipe that gives or takes nothing is waited for until the context ends, also if somebody has made its
// descriptor one that blocks. Afterwards it can be used.
func TestCopySmallPartCancelled(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	for _, blocks := range []bool{false, true} {
		t.Run(fmt.Sprintf("TCP gives nothing, blocks: %t", blocks), func(t *testing.T) {
			w, src := tcpEnds(t)
			dst, _ := unixEnds(t)
			setBlocking(t, src, blocks)
			copyInVain(t, dst, src)
			feed(t, w, make([]byte, 3000))
			if report, err := chunk.Copy(t.Context(), dst, io.LimitReader(src, 3000)); err != nil || report.Small != 3000 {
				t.Errorf("afterwards: %+v, %v", report, err)
			}
		})
		t.Run(fmt.Sprintf("a pipe gives nothing, blocks: %t", blocks), func(t *testing.T) {
			src, _ := pipeEnds(t)
			dst, _ := unixEnds(t)
			setBlocking(t, src, blocks)
			copyInVain(t, dst, src)
		})
		t.Run(fmt.Sprintf("a Unix socket takes nothing, blocks: %t", blocks), func(t *testing.T) {
			w, src := tcpEnds(t)
			dst, taker := unixEnds(t)
			full := fill(dst)
			setBlocking(t, dst, blocks)
			feed(t, w, make([]byte, 3000))
			copyInVain(t, dst, src)
			if _, err := io.CopyN(io.Discard, taker, full); err != nil {
				t.Fatal(err)
			}
			if _, err := dst.Write([]byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
}

// copyInVain copies a small part of src to dst until the context ends.
func copyInVain(t *testing.T, dst io.Writer, src io.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if report, err := chunk.Copy(ctx, dst, io.LimitReader(src, 3000)); err != context.DeadlineExceeded || report != (chunk.Report{}) {
		t.Errorf("%+v, %v", report, err)
	}
}

// fill writes to w until that takes no more, and returns how much it took.
func fill(w net.Conn) (n int64) {
	_ = w.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	defer w.SetWriteDeadline(time.Time{})
	for {
		took, err := w.Write(make([]byte, 1<<20))
		if n += int64(took); err != nil {
			return n
		}
	}
}

// setBlocking has reads and writes of an end wait in the kernel, as its method Fd, or that of its File, does.
func setBlocking(t *testing.T, end syscall.Conn, blocks bool) {
	t.Helper()
	raw, err := end.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if err := unix.SetNonblock(int(fd), !blocks); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// soon is how long a test waits before it ends a blocked call. The result does not depend on it.
const soon = 20 * time.Millisecond

// waitingEnds are pairs of ends of a connection at which a Read or Write can block.
var waitingEnds = map[string]func(t *testing.T) (w io.WriteCloser, r io.Reader){
	"TCP": func(t *testing.T) (io.WriteCloser, io.Reader) {
		w, r := tcpEnds(t)
		return w, r
	},
	"limited TCP": func(t *testing.T) (io.WriteCloser, io.Reader) {
		w, r := tcpEnds(t)
		return w, io.LimitReader(r, 1<<40)
	},
	"Unix socket": func(t *testing.T) (io.WriteCloser, io.Reader) {
		w, r := unixEnds(t)
		return w, r
	},
	"pipe": func(t *testing.T) (io.WriteCloser, io.Reader) {
		r, w := pipeEnds(t)
		return w, r
	},
	"net.Pipe": func(*testing.T) (io.WriteCloser, io.Reader) { w, r := net.Pipe(); return w, r },
}

// A target that does not read cannot prevent Copy from ending, and is usable afterwards.
func TestCopyEndsWhileTheTargetHangs(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	data := someBytes(12 << 20) // more than the sockets' buffers hold
	for _, src := range copySources {
		for name, open := range waitingEnds {
			t.Run(src.name+" to "+name, func(t *testing.T) {
				w, r := open(t)
				ctx, cancel := context.WithTimeout(context.Background(), soon)
				defer cancel()
				report, err := chunk.Copy(ctx, w, src.open(t, data))
				if err != context.DeadlineExceeded || report.Bytes >= int64(len(data)) {
					t.Fatalf("Copy = %+v, %v, want context.DeadlineExceeded and a part", report,
						err)
				}
				got := drain(t, w, r)
				if _, err := io.WriteString(w, "after it"); err != nil {
					t.Error("the deadline is still there:", err)
				}
				b := got()
				n := len(b) - len("after it")
				if n < 0 || string(b[n:]) != "after it" || int64(n) != report.Bytes {
					t.Errorf("%d bytes arrived of %+v", len(b), report)
				} else if !bytes.Equal(b[:n], data[:n]) {
					t.Error("other bytes arrived")
				}
			})
		}
	}
}

// Reads and writes without deadlines are not interrupted, but no further read or write starts.
func TestCopyWithoutDeadlinesEndsAfterTheRead(t *testing.T) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var b bytes.Buffer
	var writing sync.WaitGroup
	writing.Go(func() {
		cancel()
		_, _ = io.WriteString(w, "late")
	})
	if report, err := chunk.Copy(ctx, struct{ io.Writer }{&b}, r); err != context.Canceled {
		t.Errorf("Copy = %+v, %v, want context.Canceled", report, err)
	}
	_ = r.Close()
	writing.Wait()
}

func TestCopyAfterTheEndOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, src := range copySources {
		for _, dst := range copyTargets {
			w, got := dst.open(t)
			r := src.open(t, []byte("untouched"))
			if report, err := chunk.Copy(ctx, w, r); err != context.Canceled ||
				report != (chunk.Report{}) {
				t.Errorf("%s to %s: %+v, %v, want context.Canceled and no bytes", src.name,
					dst.name, report, err)
			}
			if b := got(); len(b) > 0 {
				t.Errorf("%s to %s: %q was written, want nothing", src.name, dst.name, b)
			}
			if b, err := io.ReadAll(r); err != nil || string(b) != "untouched" {
				t.Errorf("%s: %q, %v, want the source untouched", src.name, b, err)
			}
		}
	}
}

// The caller's own deadlines apply, and are not changed.
func TestCopyRespectsDeadlines(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	data := someBytes(12 << 20)
	for _, src := range copySources {
		w, _ := tcpEnds(t)
		_ = w.SetWriteDeadline(time.Now().Add(soon))
		report, err := chunk.Copy(ctx, w, src.open(t, data))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %+v, %v, want os.ErrDeadlineExceeded", src.name, report, err)
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the deadline has gone: %v", src.name, err)
		}
	}
	for _, dst := range copyTargets {
		_, r := tcpEnds(t)
		_ = r.SetReadDeadline(time.Now().Add(soon))
		w, _ := dst.open(t)
		if report, err := chunk.Copy(ctx, w, r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %+v, %v, want os.ErrDeadlineExceeded", dst.name, report, err)
		}
	}
}

// A context that ends after Copy sets no deadlines, even if the source or the target has panicked.
func TestCopyForgetsItsContext(t *testing.T) {
	fail := func() { panic("on purpose") }
	for name, c := range map[string]struct {
		src   io.Reader
		write func()
	}{
		"neither": {src: strings.NewReader("x"), write: func() {}},
		"source": {src: reads(func([]byte) (int, error) { fail(); return 0, nil }),
			write: func() {}},
		"target": {src: struct{ io.Reader }{bytes.NewReader([]byte("x"))}, write: fail},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			dst := &deadlined{write: c.write}
			func() {
				defer func() {
					if v := recover(); v != "on purpose" && name != "neither" {
						t.Errorf("%s: recovered %v, want the panic of the end", name, v)
					}
				}()
				_, _ = chunk.Copy(ctx, dst, c.src)
			}()
			cancel()
			synctest.Wait()
			if dst.set {
				t.Errorf("%s: the target has got a deadline", name)
			}
		})
	}
}

// A deadlined target records whether a deadline was ever set.
type deadlined struct {
	write func()
	set   bool
}

func (d *deadlined) Write(p []byte) (int, error) { d.write(); return len(p), nil }

func (d *deadlined) SetWriteDeadline(time.Time) error { d.set = true; return nil }

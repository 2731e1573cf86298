package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/leaktest"
)

// checkCopyKeeps fails the test if a Copy finds something of one before it.
func checkCopyKeeps(t *testing.T) {
	t.Helper()
	if names := chunk.CopyKeeps(); len(names) > 0 {
		t.Errorf("left for the next Copy: %v", names)
	}
}

// Whatever the ends are, and however it goes, nothing of a Copy is left for the next one.
func TestCopyLeavesNothingForTheNext(t *testing.T) {
	data := someBytes(100_000)
	for _, src := range copySources {
		for _, dst := range copyTargets {
			t.Run(src.name+" to "+dst.name, func(t *testing.T) {
				r := src.open(t, data)
				w, got := dst.open(t)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				calls := 0
				if _, err := chunk.Copy(ctx, w, r, chunk.Progress(func(int64) { calls++ })); err != nil {
					t.Error(err)
				}
				checkCopyKeeps(t)
				before := calls
				if report, err := chunk.Copy(context.Background(), w, bytes.NewReader([]byte("next"))); err != nil || report.Bytes != 4 {
					t.Errorf("the next: %+v, %v", report, err)
				}
				if calls != before {
					t.Error("the next one has reported to this one's progress")
				}
				checkCopyKeeps(t)
				got()
			})
		}
	}
}

// Nor after a panic, or runtime.Goexit, in the source, the target or the progress.
func TestCopyThatPanicsLeavesNothingForTheNext(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	file := func() io.Reader { return fileOf(t, someBytes(100_000)) }
	for _, how := range []struct {
		name string
		end  func()
	}{{"panic", func() { panic("on purpose") }}, {"Goexit", runtime.Goexit}} {
		calls := 0
		once := chunk.Progress(func(int64) { calls++; how.end() })
		conn := newDrainOf(t)
		for name, c := range map[string]struct {
			dst  io.Writer
			src  io.Reader
			opts []chunk.CopyOption
		}{
			"source":            {conn, readsBy(func([]byte) (int, error) { how.end(); return 0, nil }), nil},
			"target":            {writesBy(func([]byte) (int, error) { how.end(); return 0, nil }), file(), nil},
			"progress":          {struct{ io.Writer }{io.Discard}, file(), []chunk.CopyOption{once}},
			"progress, by file": {conn, file(), []chunk.CopyOption{once}},
			"option":            {conn, file(), []chunk.CopyOption{once, nil}},
		} {
			ctx, cancel := context.WithCancel(context.Background())
			var done sync.WaitGroup
			done.Go(func() {
				defer func() { _ = recover() }()
				_, err := chunk.Copy(ctx, c.dst, c.src, c.opts...)
				t.Errorf("%s, %s: it returned %v", how.name, name, err)
			})
			done.Wait()
			checkCopyKeeps(t)
			calls = 0
			if report, err := chunk.Copy(ctx, conn, file()); err != nil || report.Bytes != 100_000 {
				t.Errorf("%s, %s: the next: %+v, %v", how.name, name, report, err)
			}
			if calls > 0 {
				t.Errorf("%s, %s: the next one has reported to this one's progress", how.name, name)
			}
			checkCopyKeeps(t)
			cancel()
		}
	}
}

func newDrainOf(t *testing.T) *net.TCPConn {
	w, r := tcpEnds(t)
	drain(t, w, r)
	return w
}

// A hoarder keeps the sources that its ReadFrom is given, and reads a little of each.
type hoarder struct {
	io.Writer
	kept []io.Reader
}

func (k *hoarder) ReadFrom(r io.Reader) (int64, error) {
	k.kept = append(k.kept, r)
	n, err := io.CopyN(k.Writer, r, 10)
	return n, errors.Join(err, io.ErrShortWrite)
}

// checkKept fails the test if what was kept gives what somebody else copies.
func checkKept(t *testing.T, kept []io.Reader) {
	t.Helper()
	if len(kept) == 0 {
		t.Fatal("no ReadFrom")
	}
	secret := bytes.Repeat([]byte("secret"), 50_000) // several blocks
	p := make([]byte, 100)
	look := func(b []byte) (int, error) {
		for _, r := range kept {
			if n, _ := r.Read(p); bytes.Contains(p[:n], []byte("secret")) {
				t.Error("the bytes of another Copy")
			}
		}
		return len(b), nil
	}
	for range 10 {
		if _, err := chunk.Copy(context.Background(), writesBy(look), fileOf(t, secret)); err != nil {
			t.Error(err)
		}
	}
}

// A ReadFrom that keeps its source and reads it later, which it must not, gets nothing of what others copy.
func TestCopyWhoseSourceIsKept(t *testing.T) {
	k := &hoarder{Writer: io.Discard}
	_, _ = chunk.Copy(context.Background(), k, fileOf(t, someBytes(1000)))
	checkKept(t, k.kept)
}

// A keptResponse is a middleware that keeps sources.
type keptResponse struct {
	http.ResponseWriter
	hoarder
}

func (k *keptResponse) Write(p []byte) (int, error)         { return k.ResponseWriter.Write(p) }
func (k *keptResponse) ReadFrom(r io.Reader) (int64, error) { return k.hoarder.ReadFrom(r) }
func (k *keptResponse) Unwrap() http.ResponseWriter         { return k.ResponseWriter }
func (k *keptResponse) keeping(w http.ResponseWriter) *keptResponse {
	k.ResponseWriter, k.Writer = w, w
	return k
}

// A keptConn is a connection that keeps sources. It reads them as it should.
type keptConn struct {
	*net.TCPConn
	to *hoarder
}

func (c keptConn) ReadFrom(r io.Reader) (int64, error) {
	c.to.kept = append(c.to.kept, r)
	return c.TCPConn.ReadFrom(r)
}

type keptListener struct {
	net.Listener
	to *hoarder
}

func (l keptListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return keptConn{c.(*net.TCPConn), l.to}, nil
}

func TestCopyToAResponseWhoseSourceIsKept(t *testing.T) {
	data := someBytes(10_000)
	for _, src := range copySources {
		if src.kind == "other" || src.name == "TCP" || src.name == "Unix socket" || src.name == "pipe" {
			continue // nothing of Copy's is kept
		}
		for _, by := range []string{"the middleware", "the connection"} {
			t.Run(src.name+" by "+by, func(t *testing.T) {
				k := new(hoarder)
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "10000")
					if by == "the middleware" {
						m := (&keptResponse{}).keeping(w)
						_, _ = chunk.Copy(r.Context(), m, src.open(t, data))
						k = &m.hoarder
						k.Writer = io.Discard
					} else if _, err := chunk.Copy(r.Context(), w, src.open(t, data)); err != nil {
						t.Error(err)
					}
					checkKept(t, k.kept)
				}))
				if by == "the connection" {
					server.Listener = keptListener{server.Listener, k}
				}
				server.Start()
				defer server.Close()
				if res, err := http.Get(server.URL); err != nil {
					t.Error(err)
				} else {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		}
	}
}

// Many at once, some of which are cancelled while they wait, on connections that go on being used: each gets its own
// bytes, its own progress, and the end of its own context.
func TestCopiesAtOnce(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	var all sync.WaitGroup
	for g := range 8 {
		f := fileOf(t, bytes.Repeat([]byte{byte('a' + g)}, 50_000))
		feeder, src := tcpEnds(t)
		dst, sink := tcpEnds(t)
		all.Go(func() {
			for i := range 100 {
				if err := copiesInTurn(f, feeder, src, dst, sink, 1+i*37%5000); err != nil {
					t.Errorf("%d, %d: %v", g, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	checkCopyKeeps(t)
}

func copiesInTurn(f io.ReaderAt, feeder, src, dst, sink *net.TCPConn, n int) error {
	// Nothing comes from src, and somebody ends the context at some moment.
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if report, err := chunk.Copy(ctx, dst, io.LimitReader(src, int64(n))); err != context.Canceled || report.Bytes != 0 {
		return fmt.Errorf("cancelled: %+v, %v", report, err)
	}
	want := make([]byte, n)
	if _, err := f.ReadAt(want, 100); err != nil {
		return err
	}
	if _, err := feeder.Write(want); err != nil {
		return err
	}
	for _, r := range []io.Reader{
		io.LimitReader(src, int64(n)),
		io.NewSectionReader(f, 100, int64(n)),
		struct{ io.Reader }{bytes.NewReader(want)},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		moved := int64(0)
		report, err := chunk.Copy(ctx, dst, r, chunk.Progress(func(n int64) { moved = n }))
		cancel()
		if err != nil || report.Bytes != int64(n) || moved != int64(n) {
			return fmt.Errorf("%T: %+v, %v; progress %d", r, report, err, moved)
		}
		got := make([]byte, n)
		if _, err := io.ReadFull(sink, got); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%T: other bytes, %v", r, err)
		}
	}
	return nil
}

// A bubble of testing/synctest is none of the next one's business.
func TestCopiesInBubbles(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			w, r := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, struct{ io.Reader }{r}) }()
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := chunk.Copy(ctx, w, readsBy(bytes.NewReader(someBytes(100_000)).Read)); err != nil {
				t.Error(err)
			}
			_ = w.Close()
			cancel()
			a, b := net.Pipe()
			defer b.Close()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := chunk.Copy(ctx, io.Discard, struct{ net.Conn }{a}); err != context.DeadlineExceeded {
				t.Error(err)
			}
		})
	}
}

// A deadlinedResponse is a response that ends a context in its Write.
type deadlinedResponse struct {
	*httptest.ResponseRecorder
	end  func()
	mu   sync.Mutex
	last time.Time
}

func (d *deadlinedResponse) Write(p []byte) (int, error) { d.end(); return len(p), nil }

func (d *deadlinedResponse) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = at
	return nil
}

// A response that is not complete takes nothing more, however soon Copy notices that the context has ended, and nothing is
// done to it when Copy has returned.
func TestCopyThatIsCancelledSpoilsItsResponse(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d := &deadlinedResponse{ResponseRecorder: httptest.NewRecorder(), end: cancel}
			if _, err := chunk.Copy(ctx, d, readsBy(func(p []byte) (int, error) { return len(p), nil })); err != context.Canceled {
				t.Error(err)
			}
			if d.mu.Lock(); d.last.IsZero() || d.last.After(time.Now()) {
				t.Errorf("the deadline is %v", d.last)
			}
			d.last = time.Time{}
			d.mu.Unlock()
			synctest.Wait()
			if d.mu.Lock(); !d.last.IsZero() {
				t.Error("a deadline was set behind Copy's back")
			}
			d.mu.Unlock()
		})
	}
}

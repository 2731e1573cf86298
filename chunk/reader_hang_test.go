package chunk_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// newPipe returns a Reader of one end of a net.Pipe. A Write to the other end returns when all its
// bytes have been read.
func newPipe(t *testing.T, opts ...chunk.ReaderOption) (net.Conn, *chunk.Reader) {
	t.Helper()
	w, src := net.Pipe()
	r := chunk.NewReader(src, opts...)
	t.Cleanup(func() { r.Close(); w.Close(); src.Close() })
	return w, r
}

// hangers are sources that block until write is called. wakes is set if a blocked Read can be
// ended.
func hangers(t *testing.T) map[string]struct {
	src   io.ReadCloser
	write func(string)
	wakes bool
} {
	t.Helper()
	osR, osW, err := os.Pipe()
	must(t, err)
	ioR, ioW := io.Pipe()
	netR, netW := net.Pipe()
	tcpR, tcpW := tcpEnds(t)
	write := func(w io.WriteCloser) func(string) {
		t.Cleanup(func() { w.Close() })
		return func(s string) { go w.Write([]byte(s)) }
	}
	return map[string]struct {
		src   io.ReadCloser
		write func(string)
		wakes bool
	}{
		"os.Pipe":  {osR, write(osW), true},
		"io.Pipe":  {ioR, write(ioW), false},
		"net.Pipe": {netR, write(netW), true},
		"TCP":      {tcpR, write(tcpW), true},
	}
}

// until polls until done returns true. It waits long only in a failing test.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// If Next is cancelled, the goroutine ends at once if its Read can be ended. In either case nothing
// is lost.
func TestCancelledNextLosesNothing(t *testing.T) {
	for name, h := range hangers(t) {
		t.Run(name, func(t *testing.T) {
			r := chunk.NewReader(h.src, chunk.At(chunk.Lines()))
			defer h.src.Close()
			defer r.Close()
			for round := range 3 {
				h.write("a\nb")
				if got := next(t, r); got != []string{"a\n", "ba\n", "ba\n"}[round] {
					t.Errorf("round %d: %q, want the record that was interrupted", round, got)
				}
				ctx, cancel := context.WithCancel(t.Context())
				failed := make(chan error)
				go func() {
					ref, err := r.Next(ctx)
					ref.Release()
					failed <- err
				}()
				if round > 0 { // in the first round it may be cancelled before it waits
					until(t, "the source is read", func() bool { return r.Running() })
				}
				cancel()
				if err := <-failed; err != context.Canceled {
					t.Errorf("Next = %v, want context.Canceled", err)
				}
				if h.wakes {
					until(t, "the goroutine has ended", func() bool { return !r.Running() })
				}
				if _, err := r.Next(ctx); err != context.Canceled { // reading does not start again
					t.Errorf("Next = %v, want context.Canceled and no new read", err)
				}
			}
		})
	}
}

func TestCloseEndsAReadThatHangs(t *testing.T) {
	for name, h := range hangers(t) {
		t.Run(name, func(t *testing.T) {
			pool := millrace.NewPool()
			r := chunk.NewReader(h.src, chunk.From(pool))
			failed := make(chan error)
			go func() {
				_, err := r.Next(t.Context())
				failed <- err
			}()
			until(t, "the source is read", func() bool { return pool.Stats().InUseBlocks == 1 })
			if err := r.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
			if err := <-failed; err != chunk.ErrClosed {
				t.Errorf("Next = %v, want chunk.ErrClosed", err)
			}
			if h.wakes && (r.Running() || pool.Stats().InUseBlocks != 0) {
				t.Errorf("after Close: running %v, %d blocks", r.Running(),
					pool.Stats().InUseBlocks)
			}
			if err := r.Close(); err != nil {
				t.Errorf("Close again = %v", err)
			}
			if n := pool.Stats().InUseBlocks; !h.wakes && n != 1 {
				t.Errorf("%d blocks in use while the source may be writing to one", n)
			}
			h.write("xy") // a Read that cannot be ended consumes its bytes
			until(t, "the goroutine has ended", func() bool { return !r.Running() })
			if n := pool.Stats().InUseBlocks; n != 0 {
				t.Errorf("%d blocks in use", n)
			}
			if h.wakes { // nothing was read from the source
				p := make([]byte, 2)
				if n, err := io.ReadFull(h.src, p); err != nil {
					t.Errorf("reading on: %q, %v", p[:n], err)
				}
			}
		})
		h.src.Close()
	}
}

// If a source accepts a deadline but ignores it, Close still returns.
func TestCloseOfASourceThatIgnoresItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := chunk.NewReader(&deaf{release})
		go r.Next(context.Background())
		synctest.Wait()
		start := time.Now()
		r.Close()
		if d := time.Since(start); d != time.Second {
			t.Errorf("Close took %v", d)
		}
		close(release)
		synctest.Wait()
		if r.Running() {
			t.Error("the goroutine is still there")
		}
	})
}

type deaf struct{ release chan struct{} }

func (d *deaf) Read([]byte) (int, error)        { <-d.release; return 0, io.EOF }
func (d *deaf) SetReadDeadline(time.Time) error { return nil }

// Close while the goroutine waits for Next to take a chunk.
func TestCloseWithAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := millrace.NewPool()
		r := chunk.NewReader(&endless{}, chunk.From(pool), chunk.Size(512))
		next(t, r)
		synctest.Wait()
		r.Close()
		if r.Running() || pool.Stats().InUseBlocks != 0 {
			t.Errorf("after Close: running %v, %d blocks", r.Running(), pool.Stats().InUseBlocks)
		}
	})
}

// Close is called on any goroutine at any time.
func TestCloseRacesWithEverything(t *testing.T) {
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	for i := range 300 {
		var src io.Reader = &endless{}
		if i%3 == 0 {
			src = io.LimitReader(&endless{}, 5000)
		}
		r := chunk.NewReader(src, chunk.From(pool), chunk.Size(512), chunk.At(fixed(100)))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for err := error(nil); err == nil; {
				var ref millrace.Ref
				ref, err = r.Next(context.Background())
				ref.Release()
			}
		}()
		for range i % 20 {
			runtime.Gosched()
		}
		r.Close()
		<-done
	}
}

// Complete records are returned although the source blocks: to a waiting Next, and to a later one.
func TestWholeRecordsAreGivenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newPipe(t, chunk.At(chunk.JSON()))
		w.SetDeadline(time.Now().Add(time.Hour))
		go w.Write([]byte(`{"a":1}{"b`))
		if got := next(t, r); got != `{"a":1}` {
			t.Errorf("%q, want the whole record before the source ends", got)
		}
		for _, s := range []string{`":2}`, `{}`, `[`} { // no Next waits
			if _, err := w.Write([]byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := next(t, r); got != `{"b":2}{}` {
			t.Errorf("%q, want both whole records", got)
		}
		go w.Write([]byte(`]`))
		if got := next(t, r); got != `[]` {
			t.Errorf("%q, want []", got)
		}
	})
}

// If a record is already too long while the source blocks, Next returns the error at once, and
// reading ends.
func TestBadRecordIsToldWhileTheSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newPipe(t, chunk.At(chunk.CutFunc(func(p []byte) int {
			if p[0] == 'a' {
				return 1
			}
			return 2 << 20
		})))
		go w.Write([]byte("a"))
		if got := next(t, r); got != "a" {
			t.Errorf("%q, want the record before the bad one", got)
		}
		w.Write([]byte("b"))
		synctest.Wait()
		if _, err := r.Next(t.Context()); !errors.Is(err, chunk.ErrTooLong) {
			t.Error(err)
		}
		synctest.Wait()
		if r.Running() {
			t.Error("the goroutine is still there")
		}
	})
}

// Source and consumer need 10 ms per chunk each. With reading ahead, both together need 10 ms per
// chunk, not 20.
func TestReadingAndWorkingOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunks, each = 20, 10 * time.Millisecond
		src := &slowSource{left: chunks, each: each}
		r := chunk.NewReader(src, chunk.Size(512))
		defer r.Close()
		start := time.Now()
		for _, err := range r.Chunks(t.Context()) {
			must(t, err)
			time.Sleep(each)
		}
		if d := time.Since(start); d != (chunks+1)*each {
			t.Errorf("took %v, want %v", d, (chunks+1)*each)
		}
	})
}

// A slowSource needs a fixed time for each Read.
type slowSource struct {
	left int
	each time.Duration
}

func (s *slowSource) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	s.left--
	time.Sleep(s.each)
	return len(p), nil
}

// Reading is interrupted at any moment, by deadlines of the caller or the source. The chunks are
// still those of the reference.
func TestInterruptionsLoseNothing(t *testing.T) {
	for seed := range uint64(100) {
		s := &slowCutters[seed%uint64(len(slowCutters))]
		rnd := rand.New(rand.NewPCG(seed, 3))
		size := 1 + rnd.IntN(200)
		in := s.make(rnd, rnd.IntN(3000))
		synctest.Test(t, func(t *testing.T) {
			src, w := net.Pipe()
			defer src.Close()
			pauses := rand.New(rand.NewPCG(seed, 4))
			go func() {
				defer w.Close()
				for rest := in; len(rest) > 0; {
					n := 1 + pauses.IntN(min(len(rest), 100))
					w.Write(rest[:n])
					rest = rest[n:]
					time.Sleep(time.Duration(pauses.IntN(3)) * time.Millisecond)
				}
			}()
			r := chunk.NewReader(src, chunk.At(s.cutter), chunk.Size(size))
			defer r.Close()
			var chunks [][]byte
			var err error
			for err == nil || errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, os.ErrDeadlineExceeded) {
				ctx, cancel := context.WithTimeout(t.Context(),
					time.Duration(rnd.IntN(3))*time.Millisecond)
				if rnd.IntN(5) == 0 {
					src.SetReadDeadline(time.Now().Add(time.Millisecond))
				}
				var ref millrace.Ref
				if ref, err = r.Next(ctx); err == nil {
					chunks = append(chunks, slices.Clone(ref.Bytes()))
				} else if errors.Is(err, os.ErrDeadlineExceeded) {
					src.SetReadDeadline(time.Time{})
				}
				ref.Release()
				cancel()
			}
			if err == io.EOF {
				err = nil
			}
			if e := s.checkChunks(in, chunks, err, size, 1<<20, false); e != nil {
				t.Fatalf("seed %d, %s, size %d: %v\ninput %q\nchunks %q, error %v", seed, s.name,
					size, e, in, chunks, err)
			}
		})
	}
}

// When the context of Chunks ends, the goroutine ends, even if no call of Next waits.
func TestCancelWithinChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newPipe(t)
		go w.Write([]byte("x"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for p, err := range r.Chunks(ctx) {
			if last = err; err != nil {
				break
			}
			if string(p) != "x" || !r.Running() {
				t.Errorf("%q, running %v, want x and a reader that reads", p, r.Running())
			}
			cancel()
			synctest.Wait()
			if r.Running() {
				t.Error("the goroutine is still there")
			}
		}
		if last != context.Canceled {
			t.Error(last)
		}
		go w.Write([]byte("y"))
		if got := next(t, r); got != "y" {
			t.Errorf("%q, want y", got)
		}
	})
}

// The body of a request can be read with a ResponseController, which has the deadline that the body
// lacks.
func TestCloseEndsReadingARequestBody(t *testing.T) {
	served := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := chunk.NewReader(struct {
			io.Reader
			*http.ResponseController
		}{req.Body, http.NewResponseController(w)})
		if got := next(t, r); got != "begun" {
			t.Errorf("%q, want begun", got)
		}
		r.Close()
		served <- r.Running()
	}))
	defer server.Close()
	body, w := io.Pipe()
	go w.Write([]byte("begun"))
	go func() {
		if res, err := http.Post(server.URL, "text/plain", body); err == nil {
			res.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	if <-served {
		t.Error("the goroutine is still there")
	}
	w.Close()
}

//go:build unix

package millrace_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// tighten makes a write wait soon, by small kernel buffers. With a smaller receive buffer than
// this, TCP waits for its own timers.
func tighten(t testing.TB, conns ...streamConn) {
	t.Helper()
	for _, c := range conns {
		c := c.(interface {
			SetReadBuffer(int) error
			SetWriteBuffer(int) error
		})
		if err := errors.Join(c.SetReadBuffer(1<<16), c.SetWriteBuffer(1)); err != nil {
			t.Fatal(err)
		}
	}
}

// patternChain returns n bytes of the pattern, starting at at, in pieces of up to most bytes.
func patternChain(pool *millrace.Pool, rng *rand.Rand, at, n, most int) (c millrace.Chain) {
	for end := at + n; at < end; {
		d := pool.Get(min(1+rng.IntN(most), end-at))
		p := d.Bytes()[:min(1+rng.IntN(most), end-at, len(d.Bytes()))]
		for i := range p {
			p[i] = patternAt(at + i)
		}
		at += len(p)
		r := d.Freeze(len(p))
		c.Append(&r)
	}
	return c
}

// receive reads the pattern from its start to the end of the stream, with pauses and reads of all
// sizes. It returns the number of bytes. A wrong or repeated byte is an error.
func receive(t testing.TB, r io.Reader) (at int) {
	rng := rand.New(rand.NewPCG(8, 8))
	p := make([]byte, 10_000)
	for {
		n, err := r.Read(p[:1+rng.IntN(1<<rng.IntN(13))])
		for i, b := range p[:n] {
			if b != patternAt(at+i) {
				t.Errorf("received %#x at %d, want %#x", b, at+i, patternAt(at+i))
				return at
			}
		}
		at += n
		if err == io.EOF {
			return at
		} else if err != nil {
			t.Error(err)
			return at
		}
		for range rng.IntN(8) {
			runtime.Gosched()
		}
	}
}

// checkRest checks that c holds exactly the bytes from at to end of the pattern.
func checkRest(t testing.TB, c *millrace.Chain, at, end int) {
	t.Helper()
	if err := millrace.Broken(c); err != nil {
		t.Error(err)
	}
	checkPattern(t, c, at, end-at)
}

// Writes are interrupted by deadlines many times, while more bytes are appended and some are
// written by hand. No byte is lost or sent twice.
func TestWriteToDeadlinesInTheMiddle(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		tighten(t, client, server)
		pool := newPool(t)
		received := make(chan int)
		go func() { received <- receive(t, server) }()
		rng := rand.New(rand.NewPCG(10, 10))
		total := rounds(1 << 20)
		var c millrace.Chain
		made, sent, stopped := 0, 0, 0
		most := 200 * time.Microsecond // until the next deadline
		for sent < total {
			if n := min(rng.IntN(100_000), total-made); c.Len() < 200_000 && n > 0 {
				more := patternChain(pool, rng, made, n, 3000)
				c.Merge(&more)
				made += n
			}
			deadline := time.Now().Add(time.Duration(rng.Int64N(int64(most))))
			if stopped == 0 {
				deadline = time.Unix(1, 0)
			}
			client.SetWriteDeadline(deadline)
			n, err := c.WriteTo(client)
			sent += int(n)
			// On a slow machine, allow more time.
			if most = min(2*most, time.Second); n > 0 {
				most = 200 * time.Microsecond
			}
			if err != nil {
				stopped++
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
			if (err == nil) != (c.Len() == 0) || c.Len() != made-sent {
				t.Fatalf("%d bytes left after %v, %d made, %d sent", c.Len(), err, made, sent)
			}
			checkRest(t, &c, sent, made)
		}
		client.CloseWrite()
		if n := <-received; n != total {
			t.Errorf("received %d bytes of %d", n, total)
		}
	})
}

// blocked starts to write c, waits until the kernel accepts no more, and lets the other end read n
// bytes. It returns a function that ends the write and returns its result.
func blocked(
	t *testing.T, c *millrace.Chain, client, server streamConn, n int,
) (got []byte, result func() (int64, error)) {
	t.Helper()
	type outcome struct {
		n   int64
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		n, err := c.WriteTo(client)
		done <- outcome{n, err}
	}()
	got = make([]byte, n)
	if _, err := io.ReadFull(server, got); err != nil {
		t.Fatal(err)
	}
	return got, func() (int64, error) {
		o := <-done
		return o.n, o.err
	}
}

// The receiver closes after any number of bytes. The Chain has lost the bytes that the kernel
// accepted, and keeps the rest.
func TestWriteToAReceiverThatLeaves(t *testing.T) {
	for name, pair := range sockets {
		t.Run(name, func(t *testing.T) {
			for n := range rounds(40) {
				client, server := pair(t)
				tighten(t, client, server)
				pool := newPool(t)
				c := patternChain(pool, rand.New(rand.NewPCG(uint64(n), 2)), 0, 1<<20, 5000)
				got, result := blocked(t, &c, client, server, n)
				server.Close()
				sent, err := result()
				if err == nil || int(sent) < n {
					t.Errorf("WriteTo = %d, %v to a receiver that left after %d bytes", sent, err,
						n)
				}
				for i, b := range got {
					if b != patternAt(i) {
						t.Fatalf("received %#x at %d, want %#x", b, i, patternAt(i))
					}
				}
				checkRest(t, &c, int(sent), 1<<20)
				c.Release()
			}
		})
	}
}

// The writer's own end is closed by another goroutine in the middle of a write, or before it.
func TestWriteToAClosedConnection(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		tighten(t, client, server)
		c := patternChain(millrace.DefaultPool(), rand.New(rand.NewPCG(1, 3)), 0, 1<<20, 5000)
		_, result := blocked(t, &c, client, server, 100)
		client.Close()
		sent, err := result()
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("WriteTo = %d, %v, want %v", sent, err, net.ErrClosed)
		}
		checkRest(t, &c, int(sent), 1<<20)
		if n, err := c.WriteTo(client); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("WriteTo = %d, %v, want %v", n, err, net.ErrClosed)
		}
		checkRest(t, &c, int(sent), 1<<20)
		c.Release()
	})
}

// A Chain that needs several calls of writev is written to a slow reader. The write holds the
// blocks until the kernel has accepted them, even when all other shares are released.
func TestWriteToHoldsItsShares(t *testing.T) {
	for _, most := range []int{1, 3000} {
		onSockets(t, func(t *testing.T, client, server streamConn) {
			tighten(t, client, server)
			pool := newPool(t)
			total := min(5000*most, 1<<20)
			whole := patternChain(pool, rand.New(rand.NewPCG(4, 4)), 0, total, most)
			var c millrace.Chain
			whole.CloneTo(&c)
			_, result := blocked(t, &c, client, server, 0)
			whole.Release()
			for range 100 { // would overwrite returned blocks
				d := pool.Get(most)
				clear(d.Bytes())
				d.Release()
			}
			received := make(chan int)
			go func() { received <- receive(t, server) }()
			if n, err := result(); int(n) != total || err != nil || c.Len() != 0 {
				t.Errorf("WriteTo = %d, %v, %d bytes left", n, err, c.Len())
			}
			client.CloseWrite()
			if n := <-received; n != total {
				t.Errorf("received %d bytes of %d", n, total)
			}
		})
	}
}

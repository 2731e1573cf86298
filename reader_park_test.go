//go:build unix

package millrace_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// readAndWait reads n bytes into a Chain, has the Reader wait for n more on another goroutine, and returns when it has
// given up its shares.
func readAndWait(t *testing.T, r *millrace.Reader, n int) (c *millrace.Chain, next func() *millrace.Chain) {
	t.Helper()
	c = new(millrace.Chain)
	readChain(t, r, c, n)
	alone := millrace.Sole(c)
	done := make(chan *millrace.Chain)
	go func() {
		d := new(millrace.Chain)
		if err := r.ReadChain(d, n); err != nil {
			t.Error(err)
		}
		done <- d
	}()
	until(t, "the Reader waits", alone)
	return c, func() *millrace.Chain { return <-done }
}

// Packets with a wait between them lie one behind the other in one block, if the first is still held.
func TestKeptPacketsAreAdjacentAcrossAWait(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		pool := millrace.NewPool()
		r := pool.NewReader(client, 4096)
		server.Write([]byte("first"))
		c, next := readAndWait(t, r, 5)
		if s := pool.Stats(); s.InUse != 4096 {
			t.Errorf("%d bytes in use for a packet that is held", s.InUse)
		}
		c.AppendCopy([]byte(" and more")) // must not go where the Reader goes on
		server.Write([]byte("after"))
		d := next()
		if string(c.Bytes()) != "first and more" || string(d.Bytes()) != "after" {
			t.Errorf("read %q, %q", c.Bytes(), d.Bytes())
		}
		c.Release()
		d.Release()
		r.Release()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes in use", n)
		}

		server.Write([]byte("one"))
		c, next = readAndWait(t, resetTo(r, client), 3)
		server.Write([]byte("two"))
		d = next()
		if c.Merge(d); c.Pieces() != 1 || string(c.Bytes()) != "onetwo" {
			t.Errorf("%q in %d pieces", c.Bytes(), c.Pieces())
		}
		c.Release()
		r.Release()
	})
}

func resetTo(r *millrace.Reader, conn streamConn) *millrace.Reader {
	r.Reset(conn)
	return r
}

// If the packet is released meanwhile, its block goes back at once, and the Reader takes another.
func TestPacketReleasedWhileTheReaderWaits(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		pool := millrace.NewPool()
		r := pool.NewReader(client, 4096)
		for range 20 {
			server.Write([]byte("first"))
			c, next := readAndWait(t, r, 5)
			c.Release()
			if s := pool.Stats(); s.InUse != 0 {
				t.Errorf("%d bytes in use while nobody holds any", s.InUse)
			}
			d := pool.Get(4096) // very likely the same block, for somebody else
			copy(d.Bytes(), "not the Reader's")
			server.Write([]byte("after"))
			c = next()
			if string(c.Bytes()) != "after" || string(d.Bytes()[:16]) != "not the Reader's" {
				t.Errorf("read %q beside %q", c.Bytes(), d.Bytes()[:16])
			}
			c.Release()
			d.Release()
		}
		r.Release()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes in use", n)
		}
	})
}

// A deadline in the middle of everything, many times over, with packets kept and released at random: nothing is lost,
// nothing changes that is held.
func TestReaderDeadlinesInTheMiddle(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		const total = 1 << 20
		go writePattern(t, server, total)
		pool := millrace.NewPool()
		r := pool.NewReader(client, 4096)
		rng := rand.New(rand.NewPCG(5, 5))
		var held []*packet
		patience := 50 * time.Microsecond
		for at := 0; at < total; {
			client.SetReadDeadline(time.Now().Add(time.Duration(rng.Int64N(int64(patience)))))
			p := &packet{at: at, n: min(1+rng.IntN(6000), total-at)}
			before := r.Buffered()
			if err := r.ReadChain(&p.chain, p.n); err == nil {
				at += p.n
				held = append(held, p)
				patience = 50 * time.Microsecond
			} else if !errors.Is(err, os.ErrDeadlineExceeded) || r.Buffered() < before || p.chain.Len() > 0 {
				t.Fatalf("%v, %d buffered, %d before", err, r.Buffered(), before)
			} else {
				patience = min(2*patience, time.Second) // a machine that is too slow gets on all the same
			}
			for len(held) > 0 && rng.IntN(5) < 2 {
				i := rng.IntN(len(held))
				checkPattern(t, &held[i].chain, held[i].at, held[i].n)
				held[i].chain.Release()
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
		}
		for _, p := range held {
			checkPattern(t, &p.chain, p.at, p.n)
			p.chain.Release()
		}
		r.Release()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes in use", n)
		}
	})
}

// writePattern writes n bytes of the pattern in steps of all sizes, and now and then lets others go first.
func writePattern(t testing.TB, w streamConn, n int) {
	rng := rand.New(rand.NewPCG(6, 6))
	src := &pattern{end: n}
	b := make([]byte, 9000)
	for src.at < n {
		src.most = 1 + rng.IntN(1<<(1+rng.IntN(13)))
		m, _ := src.Read(b)
		if _, err := w.Write(b[:m]); err != nil {
			t.Error(err)
			return
		}
		for range rng.IntN(20) {
			runtime.Gosched()
		}
	}
	w.CloseWrite()
}

// What was lent is gone after a deadline, what was not is still to come.
func TestReadRangeAfterADeadline(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		r := millrace.NewReader(client)
		defer r.Release()
		server.Write([]byte("some"))
		client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		var got bytes.Buffer
		collect := func(p []byte) { got.Write(p) }
		if err := r.ReadRange(10, collect); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		client.SetReadDeadline(time.Time{})
		server.Write([]byte("thing!"))
		if err := r.ReadRange(10-got.Len(), collect); err != nil || got.String() != "something!" {
			t.Errorf("%q, %v", got.String(), err)
		}
	})
}

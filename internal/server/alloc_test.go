//go:build !race && !invariants && (linux || darwin)

package server

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
)

// A rig is a stream with viewers whose pump is driven by hand.
type rig struct {
	st        *stream
	pump      *pump
	receivers []io.Reader
	buf       []byte
}

func newRig(t testing.TB, viewers int) *rig {
	cfg := Defaults()
	cfg.KeepFrames = 64
	cfg.Log = slog.New(slog.DiscardHandler)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st := s.newStream("rig", "test")
	if err := s.registry.claim(st); err != nil {
		t.Fatal(err)
	}
	st.open(formFLV, nil)
	p := newPump(st.live)
	p.vec = new(vector)
	p.running = true // nobody starts it
	r := &rig{st: st, pump: p, buf: make([]byte, 64<<10)}
	for range viewers {
		sender, receiver := tcpPair(t, false)
		out, c, err := st.enter(formFLV, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		v := newViewer(out, c, "")
		v.conn, v.pump = sender, p
		v.sock.open(sender)
		p.healthy = append(p.healthy, v)
		r.receivers = append(r.receivers, receiver)
		s.census.admitted++
		t.Cleanup(v.finish)
	}
	t.Cleanup(st.end)
	return r
}

// tick publishes frames as an ingest does and serves the viewers.
func (r *rig) tick(frames, size int, key bool) {
	for range frames {
		d := millrace.DefaultPool.Get(size)
		ref := d.Freeze(size)
		var c millrace.Chain
		c.Append(&ref)
		if err := r.st.live.ring.Publish(&c, broadcast.Frame{Key: key}); err != nil {
			panic(err)
		}
		key = false
	}
	r.pump.round()
}

// receive takes what a tick has sent. It is done here because AllocsPerRun leaves one processor to all goroutines.
func (r *rig) receive(n int) {
	for _, from := range r.receivers {
		if _, err := io.ReadFull(from, r.buf[:n]); err != nil {
			panic(err)
		}
	}
}

// In steady state a packet costs no allocation on its way from the ring to the viewers' sockets.
func TestARoundAllocatesNothing(t *testing.T) {
	r := newRig(t, 8)
	n := 0
	for range 200 { // until everything has its size
		r.tick(4, 3000, n%10 == 0)
		r.receive(4 * 3000)
		n++
	}
	allocs := testing.AllocsPerRun(500, func() {
		r.tick(4, 3000, n%10 == 0)
		r.receive(4 * 3000)
		n++
	})
	if len(r.pump.healthy) != 8 {
		t.Fatalf("%d of 8 viewers keep up", len(r.pump.healthy))
	}
	if allocs >= 1 {
		t.Errorf("%v allocations a round of 4 frames to 8 viewers, want 0", allocs)
	}
}

// loop gives the same bytes again and again.
type loop struct {
	p  []byte
	at int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 1400)], l.p[l.at:]) // as packets come
	l.at = (l.at + n) % len(l.p)
	return n, nil
}

// In steady state a tag costs no allocation on its way from the publisher to the ring.
func TestIngestAllocatesNothing(t *testing.T) {
	st := shortStream(t)
	defer st.end()
	sc := newScript(4, 10, 3000)
	in := &ingest{s: st, r: millrace.NewReader(io.MultiReader(bytes.NewReader(sc.start()), &loop{p: bytes.Join(sc.tags, nil)}))}
	defer in.release()
	dec := flv.NewDecoder(in.r)
	if _, err := dec.Header(); err != nil {
		t.Fatal(err)
	}
	st.open(formFLV, sc.header)
	tags := func(n int) func() {
		return func() {
			for range n {
				if err := in.next(dec); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	tags(5000)() // until everything has its size
	if allocs := testing.AllocsPerRun(100, tags(100)); allocs != 0 {
		t.Errorf("%v allocations in 100 tags, want 0", allocs)
	}
}

// BenchmarkRound is what one announcement costs, the viewers' reading included: 4 frames of 3 kB, which a stream of 2 Mbit/s
// gives in 50 ms.
func BenchmarkRound(b *testing.B) {
	for _, viewers := range []int{1, 4, 200} {
		b.Run(fmt.Sprintf("viewers=%d", viewers), func(b *testing.B) {
			r := newRig(b, viewers)
			b.ReportAllocs()
			b.SetBytes(int64(viewers) * 4 * 3000)
			for i := 0; b.Loop(); i++ {
				r.tick(4, 3000, i%10 == 0)
				r.receive(4 * 3000)
			}
		})
	}
}

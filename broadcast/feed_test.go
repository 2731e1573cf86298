package broadcast_test

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A feed cuts frames out of blocks of a pool, as a Reader does: consecutive frames share a block,
// and large ones span several.
type feed struct {
	pool  *millrace.Pool
	block int
	chain millrace.Chain
	state uint32
}

func newFeed(block int) *feed {
	return &feed{pool: millrace.NewPool(), block: block, state: 1}
}

// next returns a frame of n bytes, which the caller owns.
func (f *feed) next(n int) (frame millrace.Chain) {
	for f.chain.Len() < n {
		d := f.pool.Get(f.block)
		b := d.Bytes()[:f.block]
		for i := range b {
			f.state = f.state*1664525 + 1013904223
			b[i] = byte(f.state >> 24)
		}
		ref := d.Freeze(len(b))
		f.chain.Append(&ref)
	}
	f.chain.CutTo(&frame, n)
	return frame
}

// publish publishes a frame of n bytes and returns a copy of it.
func (f *feed) publish(t testing.TB, r *broadcast.Ring, n int, key bool) string {
	t.Helper()
	frame := f.next(n)
	s := text(&frame)
	if err := r.Publish(&frame, broadcast.Frame{Key: key}); err != nil {
		t.Fatal("Publish:", err)
	}
	if frame.Len() != 0 {
		t.Fatal("Publish left its chain", frame.Len(), "bytes")
	}
	return s
}

// group publishes a GOP of frames, each of n bytes. It returns a copy of them.
func (f *feed) group(t testing.TB, r *broadcast.Ring, frames, n int) string {
	t.Helper()
	all := f.publish(t, r, n, true)
	for range frames - 1 {
		all += f.publish(t, r, n, false)
	}
	return all
}

// done releases the unused blocks and checks that all were returned.
func (f *feed) done(t testing.TB) {
	t.Helper()
	f.chain.Release()
	if n := f.pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes of the pool are still in use", n)
	}
}

// text copies a chain's bytes. It borrows c.
func text(c *millrace.Chain) string {
	var s []byte
	for p := range c.All() {
		s = append(s, p...)
	}
	return string(s)
}

// chainOf returns a chain with a copy of s, which the caller owns.
func chainOf(s string) (c millrace.Chain) {
	c.AppendCopy([]byte(s))
	return c
}

// publish publishes a copy of s.
func publish(t testing.TB, r *broadcast.Ring, s string, key bool) {
	t.Helper()
	p := chainOf(s)
	if err := r.Publish(&p, broadcast.Frame{Key: key}); err != nil {
		t.Fatal("Publish:", err)
	}
}

// take returns the result of c.Take, with the bytes as text.
func take(t testing.TB, c *broadcast.Cursor) (string, broadcast.Batch) {
	t.Helper()
	var dst millrace.Chain
	b, err := c.Take(&dst)
	if err != nil {
		t.Fatal("Take:", err)
	}
	if b.Bytes != dst.Len() {
		t.Fatalf("Batch.Bytes = %d, the chain has %d", b.Bytes, dst.Len())
	}
	s := text(&dst)
	dst.Release()
	return s, b
}

// takeAll returns everything that c can take at the moment.
func takeAll(t testing.TB, c *broadcast.Cursor) (all string) {
	t.Helper()
	for {
		s, b := take(t, c)
		if b.Frames == 0 {
			return all
		}
		all += s
	}
}

// wantLate checks the bytes that a new reader gets.
func wantLate(t testing.TB, r *broadcast.Ring, want string) {
	t.Helper()
	c := r.Cursor()
	defer c.Close()
	if got := takeAll(t, c); got != want {
		t.Errorf("a late reader got %d bytes, want %d others", len(got), len(want))
	}
}

func check(t testing.TB, r *broadcast.Ring) {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Fatal("invariants:", err)
	}
}

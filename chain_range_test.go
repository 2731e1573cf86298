package millrace_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/millrace-io/millrace"
)

// sameBytes is a checkChain that is cheap enough for every range of every Chain.
func sameBytes(t testing.TB, what string, c *millrace.Chain, want string) {
	t.Helper()
	var got []byte
	for p := range c.All() {
		got = append(got, p...)
	}
	if string(got) != want || c.Len() != len(want) {
		t.Errorf("%s is %q, %d bytes, want %q", what, got, c.Len(), want)
	}
	if err := millrace.Broken(c); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestChainEveryRange(t *testing.T) {
	p := letters(13)
	onEveryWay(t, p, func(t *testing.T, _ *millrace.Pool, c *millrace.Chain) {
		for from := 0; from <= len(p); from++ {
			for to := from; to <= len(p); to++ {
				var dst millrace.Chain
				c.Slice(&dst, from, to)
				sameBytes(t, fmt.Sprintf("Slice [%d:%d)", from, to), &dst, string(p[from:to]))
				c.Slice(&dst, from, to) // behind it
				sameBytes(t, "the same twice", &dst, string(p[from:to])+string(p[from:to]))
				dst.Release()

				buf := make([]byte, to-from)
				v := c.Reader()
				if n, err := v.ReadAt(buf, int64(from)); n != to-from || err != nil && to < len(p) || string(buf) != string(p[from:to]) {
					t.Errorf("ReadAt of [%d:%d) = %d, %v: %q", from, to, n, err, buf)
				}
			}
		}
		sameBytes(t, "the Chain", c, string(p))
		c.Release()
	})
}

func TestChainEveryCutAndDiscard(t *testing.T) {
	p := letters(13)
	onEveryWay(t, p, func(t *testing.T, _ *millrace.Pool, c *millrace.Chain) {
		for n := range len(p) + 1 {
			var all, front, rest millrace.Chain
			c.Clone(&all)
			all.Cut(&front, n)
			sameBytes(t, fmt.Sprintf("Cut(%d)", n), &front, string(p[:n]))
			sameBytes(t, "the rest", &all, string(p[n:]))
			for m := range n + 1 {
				front.Slice(&rest, 0, n)
				rest.Discard(m)
				sameBytes(t, fmt.Sprintf("Discard(%d)", m), &rest, string(p[m:n]))
				rest.Release()
			}
			front.Merge(&all)
			sameBytes(t, "both again", &front, string(p))
			front.Release()
		}
		c.Release()
	})
}

// The bytes leave one by one at the front while others come in behind.
func TestChainAsAQueue(t *testing.T) {
	pool := millrace.NewPool()
	for _, length := range []int{1, 3, 4, 5, 16, 17, 100, 300} {
		var c millrace.Chain
		in, out := 0, 0
		for out < 5*length {
			for c.Len() < length {
				r := freeze(pool, []byte{byte(in)})
				c.Append(&r)
				in++
			}
			for range 1 + out%3 {
				if c.Len() == 0 {
					break
				}
				v := c.Reader()
				if b, _ := v.ReadByte(); b != byte(out) {
					t.Fatalf("a queue of %d: %d comes out, want %d", length, b, out)
				}
				c.Discard(1)
				out++
			}
			if err := millrace.Broken(&c); err != nil {
				t.Fatal(err)
			}
		}
		c.Release()
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

func TestChainPanics(t *testing.T) {
	p := letters(13)
	onEveryWay(t, p, func(t *testing.T, _ *millrace.Pool, c *millrace.Chain) {
		var dst millrace.Chain
		for _, r := range [][2]int{{-1, 0}, {-1, -1}, {0, 14}, {14, 14}, {13, 14}, {5, 4}, {13, 12}} {
			text := fmt.Sprintf("millrace: Slice [%d:%d) of a Chain of 13 bytes", r[0], r[1])
			wantPanic(t, "Slice", text, func() { c.Slice(&dst, r[0], r[1]) })
		}
		for _, n := range []int{-1, 14, math.MaxInt} {
			of := fmt.Sprintf(" [0:%d) of a Chain of 13 bytes", n)
			wantPanic(t, "Cut", "millrace: Cut"+of, func() { c.Cut(&dst, n) })
			wantPanic(t, "Discard", "millrace: Discard"+of, func() { c.Discard(n) })
		}
		wantPanic(t, "Merge", "millrace: Merge of a Chain into itself", func() { c.Merge(c) })
		wantPanic(t, "Cut", "millrace: Cut of a Chain into itself", func() { c.Cut(c, 1) })
		wantPanic(t, "Slice", "millrace: Slice of a Chain into itself", func() { c.Slice(c, 1, 2) })
		wantPanic(t, "Clone", "millrace: Slice of a Chain into itself", func() { c.Clone(c) })
		sameBytes(t, "after the panics the Chain", c, string(p))
		if dst.Len() != 0 {
			t.Errorf("a call that panicked gave %d bytes", dst.Len())
		}
		c.Release()
	})
}

// Whoever stops early has seen what came until then.
func TestChainAllCanBeLeft(t *testing.T) {
	onEveryWay(t, letters(13), func(t *testing.T, _ *millrace.Pool, c *millrace.Chain) {
		for stop := range c.Pieces() {
			seen := 0
			for range c.All() {
				if seen++; seen == stop {
					break
				}
			}
			if seen != max(stop, 1) && stop > 0 {
				t.Errorf("saw %d pieces, left at %d", seen, stop)
			}
		}
		c.Release()
	})
}

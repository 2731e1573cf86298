package millrace_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
)

// packets reads n packets of size bytes, which lie one behind the other in one block, into a Chain each.
func packets(t testing.TB, pool *millrace.Pool, n, size int) []millrace.Chain {
	t.Helper()
	r := pool.NewReader(bytes.NewReader(letters(n*size)), n*size)
	chains := make([]millrace.Chain, n)
	for i := range chains {
		if err := r.ReadChain(&chains[i], size); err != nil {
			t.Fatal(err)
		}
	}
	r.Release()
	return chains
}

// together is how packets can come together in one Chain.
var together = map[string]func(dst *millrace.Chain, src []millrace.Chain){
	"Merge": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := range src {
			dst.Merge(&src[i])
		}
	},
	"Merge of pairs": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := 0; i < len(src); i += 2 {
			src[i].Merge(&src[i+1])
			dst.Merge(&src[i])
		}
	},
	"Cut": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := range src {
			for src[i].Len() > 0 {
				src[i].Cut(dst, min(src[i].Len(), 7))
			}
		}
	},
	"Slice": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := range src {
			n := src[i].Len()
			src[i].Slice(dst, 0, n/2)
			src[i].Slice(dst, n/2, n)
			src[i].Release()
		}
	},
	"Clone": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := range src {
			src[i].Clone(dst)
			src[i].Release()
		}
	},
	"Cut apart and Merge": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := range src {
			var front millrace.Chain
			src[i].Cut(&front, 1)
			dst.Merge(&front)
			dst.Merge(&src[i])
		}
	},
	"Discard of what is in between": func(dst *millrace.Chain, src []millrace.Chain) {
		for i := range src {
			var rest millrace.Chain
			n := src[i].Len()
			src[i].Slice(&rest, n-1, n)
			src[i].Slice(&rest, 0, n-1) // the last byte comes first: two pieces
			rest.Discard(1)
			dst.Merge(&rest)
			src[i].Slice(dst, n-1, n)
			src[i].Release()
		}
	},
}

func TestPacketsOfOneBlockBecomeOnePiece(t *testing.T) {
	const n, size = 64, 37
	for name, merge := range together {
		t.Run(name, func(t *testing.T) {
			pool := millrace.NewPool()
			src := packets(t, pool, n, size)
			var dst millrace.Chain
			merge(&dst, src)
			if dst.Pieces() != 1 {
				t.Errorf("%d pieces, want 1", dst.Pieces())
			}
			sameBytes(t, "the batch", &dst, string(letters(n*size)))
			if s := pool.Stats(); s.InUseBlocks != 1 {
				t.Errorf("%d blocks in use, want 1", s.InUseBlocks)
			}
			dst.Release()
			if s := pool.Stats(); s.InUseBlocks != 0 {
				t.Errorf("%d blocks in use", s.InUseBlocks)
			}
		})
	}
	t.Run("ReadChain", func(t *testing.T) {
		r := millrace.NewReader(bytes.NewReader(letters(4000)))
		var c millrace.Chain
		for range 40 {
			if err := r.ReadChain(&c, 100); err != nil {
				t.Fatal(err)
			}
		}
		r.Release()
		if c.Pieces() != 1 {
			t.Errorf("%d pieces, want 1", c.Pieces())
		}
		c.Release()
	})
	t.Run("Append", func(t *testing.T) {
		r := freeze(millrace.DefaultPool, letters(100))
		var c millrace.Chain
		for i := range 100 {
			s := r.Slice(i, i+1)
			c.Append(&s)
		}
		r.Release()
		if c.Pieces() != 1 {
			t.Errorf("%d pieces, want 1", c.Pieces())
		}
		c.Release()
	})
}

// Only what follows in the same block, and in the same loan of it, is a neighbour.
func TestWhatIsNoNeighbour(t *testing.T) {
	pool := millrace.NewPool()
	r := freeze(pool, letters(10))
	for _, order := range [][][2]int{{{5, 10}, {0, 5}}, {{0, 5}, {6, 10}}, {{0, 5}, {4, 10}}, {{0, 5}, {0, 5}}} {
		var c millrace.Chain
		var want []byte
		for _, o := range order {
			s := r.Slice(o[0], o[1])
			c.Append(&s)
			want = append(want, letters(10)[o[0]:o[1]]...)
		}
		if c.Pieces() != 2 {
			t.Errorf("%v became %d pieces", order, c.Pieces())
		}
		sameBytes(t, fmt.Sprint(order), &c, string(want))
		c.Release()
	}
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// taken returns how many loans a call makes of the default pool.
func taken(f func()) int {
	before := millrace.DefaultPool.Stats().Taken
	f()
	return int(millrace.DefaultPool.Stats().Taken - before)
}

func TestAppendCopyFillsItsOwnBlock(t *testing.T) {
	var c millrace.Chain
	if n := taken(func() { c.AppendCopy([]byte("first")) }); n != 1 {
		t.Errorf("%d blocks taken for the first bytes, want 1", n)
	}
	first := &c.Bytes()[0]
	n := taken(func() {
		for range 100 {
			c.AppendCopy([]byte(" and more"))
		}
	})
	want := "first" + string(bytes.Repeat([]byte(" and more"), 100))
	if n != 0 || c.Pieces() != 1 || &c.Bytes()[0] != first {
		t.Errorf("%d blocks taken for 900 bytes more, %d pieces", n, c.Pieces())
	}
	sameBytes(t, "the Chain", &c, want)

	rest := letters(1000)
	n = taken(func() { c.AppendCopy(rest) }) // 119 bytes fit
	if n != 1 || c.Pieces() != 2 {
		t.Errorf("%d blocks taken beyond the first one's end, %d pieces", n, c.Pieces())
	}
	for p := range c.All() {
		if len(p) != 1024 && len(p) != 881 {
			t.Errorf("a piece of %d bytes", len(p))
		}
	}
	sameBytes(t, "the Chain", &c, want+string(rest))
	c.Release()
}

// AppendCopy must not write behind bytes when somebody else may be using what is there.
func TestAppendCopyWritesWhereNobodyLooks(t *testing.T) {
	more := []byte("more")
	for name, test := range map[string]struct {
		// share returns what others have of c's block, with what they see.
		share func(c *millrace.Chain) (others millrace.Chain)
		alone bool
	}{
		"nobody else": {func(*millrace.Chain) (none millrace.Chain) { return none }, true},
		"a clone":     {func(c *millrace.Chain) (d millrace.Chain) { c.Clone(&d); return d }, false},
		"a clone, already released": {func(c *millrace.Chain) (none millrace.Chain) {
			var d millrace.Chain
			c.Clone(&d)
			d.Release()
			return none
		}, true},
		"a slice of the start": {func(c *millrace.Chain) (d millrace.Chain) { c.Slice(&d, 0, 1); return d }, false},
		"a cut":                {func(c *millrace.Chain) (d millrace.Chain) { c.Cut(&d, 3); return d }, false},
		"the other end":        {cutBehind, false},
		"the other end, already released": {func(c *millrace.Chain) (none millrace.Chain) {
			d := cutBehind(c)
			d.Release()
			return none
		}, false},
		"merged and cut again": {func(c *millrace.Chain) (none millrace.Chain) {
			c.Cut(&none, 2)
			none.Merge(c)
			c.Merge(&none)
			return none
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var c millrace.Chain
			c.AppendCopy(letters(10))
			block := c.Bytes()
			others := test.share(&c)
			saw := content(&others)
			want := string(content(&c)) + "more"
			n := taken(func() { c.AppendCopy(more) })
			if (n == 0) != test.alone {
				t.Errorf("%d blocks taken, nobody else there: %v", n, test.alone)
			}
			sameBytes(t, "the Chain", &c, want)
			sameBytes(t, "what others have", &others, string(saw))
			if string(block) != string(letters(10)) {
				t.Errorf("the block's bytes have changed to %q", block)
			}
			others.AppendCopy(more)
			sameBytes(t, "the Chain, after others added to theirs", &c, want)
			c.Release()
			others.Release()
		})
	}
}

// cutBehind leaves c the first four bytes and returns the others.
func cutBehind(c *millrace.Chain) millrace.Chain {
	var front millrace.Chain
	c.Cut(&front, 4)
	rest := *c
	*c = front
	return rest
}

// content returns a copy of c's bytes.
func content(c *millrace.Chain) []byte {
	p := make([]byte, c.Len())
	c.CopyTo(p)
	return p
}

// The block of a packet belongs to the Reader for as long as it may go on in it.
func TestAppendCopyBehindAPacket(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(bytes.NewReader(letters(30)), 4096)
	var c, d millrace.Chain
	r.ReadChain(&c, 10)
	if n := taken(func() { c.AppendCopy([]byte("more")) }); n != 1 {
		t.Errorf("%d blocks taken while the Reader has bytes behind the packet, want 1", n)
	}
	r.ReadChain(&d, 20)
	r.Release()
	sameBytes(t, "the first packet", &c, string(letters(10))+"more")
	if n := taken(func() { d.AppendCopy([]byte("more")) }); n != 1 {
		t.Errorf("%d blocks taken while the first packet is held, want 1", n)
	}
	sameBytes(t, "the second packet", &d, string(letters(30)[10:])+"more")
	c.Release()
	d.Release()

	r = pool.NewReader(bytes.NewReader(letters(30)), 4096)
	r.ReadChain(&c, 30)
	r.Release()
	if n := taken(func() { c.AppendCopy([]byte("more")) }); n != 0 {
		t.Errorf("%d blocks taken when nobody else has the block any more, want none", n)
	}
	sameBytes(t, "the only packet", &c, string(letters(30))+"more")
	c.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// Bytes copies where there are several pieces, once.
func TestBytesIsCopiedOnce(t *testing.T) {
	pool := millrace.NewPool()
	var c millrace.Chain
	addBlocks(pool, &c, letters(2000), 300)
	if n := taken(func() { c.Bytes() }); n != 1 {
		t.Errorf("%d blocks taken for several pieces", n)
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes of the pieces are still in use", n)
	}
	first := &c.Bytes()[0]
	if n := taken(func() { c.Bytes() }); n != 0 || &c.Bytes()[0] != first {
		t.Errorf("%d blocks taken for one piece", n)
	}
	c.Release()
	if c.Bytes() != nil {
		t.Error("an empty Chain has bytes")
	}
}

// ReadAt of one view may be called from several goroutines at once, as io.ReaderAt says, while others release theirs.
func TestChainReaderReadAtIsForManyGoroutines(t *testing.T) {
	p := letters(3000)
	onEveryWay(t, p, func(t *testing.T, _ *millrace.Pool, c *millrace.Chain) {
		v := c.Reader()
		var goroutines sync.WaitGroup
		for seed := range uint64(4) {
			var clone millrace.Chain
			c.Clone(&clone)
			goroutines.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 21))
				buf := make([]byte, 300)
				for range 50 {
					off := rng.IntN(len(p))
					n, err := v.ReadAt(buf, int64(off))
					if n < len(buf) && err != io.EOF || !bytes.HasPrefix(p[off:], buf[:n]) {
						t.Errorf("ReadAt(%d) = %d, %v: %q", off, n, err, buf[:n])
					}
				}
				clone.Release()
			})
		}
		goroutines.Wait()
		c.Release()
	})
}

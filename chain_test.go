package millrace_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
)

// sameBytes checks that c holds want.
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
		t.Errorf("%s: the chain is broken: %v", what, err)
	}
}

func TestChainPanics(t *testing.T) {
	var c, dst millrace.Chain
	addBlocks(newPool(t), &c, letters(13), 3)
	for _, r := range [][2]int{{-1, 0}, {-1, -1}, {0, 14}, {14, 14}, {13, 14}, {5, 4}, {13, 12}} {
		text := fmt.Sprintf("millrace: SliceTo [%d:%d) of a Chain of 13 bytes", r[0], r[1])
		wantPanic(t, "SliceTo", text, func() { c.SliceTo(&dst, r[0], r[1]) })
	}
	for _, n := range []int{-1, 14, math.MaxInt} {
		of := fmt.Sprintf(" [0:%d) of a Chain of 13 bytes", n)
		wantPanic(t, "CutTo", "millrace: CutTo"+of, func() { c.CutTo(&dst, n) })
		wantPanic(t, "Discard", "millrace: Discard"+of, func() { c.Discard(n) })
	}
	wantPanic(t, "Merge", "millrace: Merge of a Chain into itself", func() { c.Merge(&c) })
	wantPanic(t, "CutTo", "millrace: CutTo of a Chain into itself", func() { c.CutTo(&c, 1) })
	wantPanic(t, "SliceTo", "millrace: SliceTo of a Chain into itself", func() { c.SliceTo(&c, 1, 2) })
	wantPanic(t, "CloneTo", "millrace: SliceTo of a Chain into itself", func() { c.CloneTo(&c) })
	sameBytes(t, "after the panics the Chain", &c, string(letters(13)))
	sameBytes(t, "what the calls that panicked gave", &dst, "")
	c.Release()
}

// A ChainReader reads and seeks as a bytes.Reader does.
func TestChainReaderAgainstBytesReader(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := letters(1 + rng.IntN(400))
		var c millrace.Chain
		addBlocks(millrace.DefaultPool(), &c, p, 1+rng.IntN(20))
		got, want := c.Reader(), bytes.NewReader(p)
		for range 60 {
			var a, b []any // results of both
			switch rng.IntN(6) {
			case 0, 1, 2:
				x, y := make([]byte, 1+rng.IntN(50)), make([]byte, 50)
				n, err := got.Read(x)
				m, wantErr := want.Read(y[:len(x)])
				a, b = []any{string(x[:n]), err}, []any{string(y[:m]), wantErr}
			case 3:
				x, y, off := make([]byte, 1+rng.IntN(50)), make([]byte, 50),
					int64(rng.IntN(len(p)+10)-1)
				n, err := got.ReadAt(x, off)
				m, wantErr := want.ReadAt(y[:len(x)], off)
				a, b = []any{string(x[:n]), err == nil, err == io.EOF},
					[]any{string(y[:m]), wantErr == nil, wantErr == io.EOF}
			case 4:
				off, whence := int64(rng.IntN(2*len(p)+10)-len(p)), rng.IntN(4)
				x, err := got.Seek(off, whence)
				y, wantErr := want.Seek(off, whence)
				a, b = []any{x, err == nil}, []any{y, wantErr == nil}
			case 5:
				if rng.IntN(10) == 0 {
					c.Bytes() // joins the pieces before this one
				}
			}
			if !slices.Equal(a, b) || got.Len() != want.Len() {
				t.Fatalf("seed %d: %q and %d bytes left, want %q and %d", seed, a, got.Len(), b,
					want.Len())
			}
		}
		// In this case bytes.Reader returns io.EOF.
		if n, err := got.Read(nil); n != 0 || err != nil {
			t.Errorf("Read of nothing = %d, %v", n, err)
		}
		c.Release()
	}
}

// ReadAt may be called from several goroutines at once, as io.ReaderAt requires, while other
// goroutines release their views.
func TestChainReaderReadAtIsForManyGoroutines(t *testing.T) {
	p := letters(3000)
	var c millrace.Chain
	addBlocks(newPool(t), &c, p, 7)
	v := c.Reader()
	var goroutines sync.WaitGroup
	for seed := range uint64(4) {
		var clone millrace.Chain
		c.CloneTo(&clone)
		goroutines.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 21))
			buf := make([]byte, 300)
			for range 500 {
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

// AppendCopy must not write into memory that another share can reach.
func TestAppendCopyWritesOnlyItsOwnBlock(t *testing.T) {
	more := []byte("more")
	for name, test := range map[string]struct {
		// share returns shares of c's block, and their contents.
		share func(c *millrace.Chain) (others millrace.Chain)
		alone bool
	}{
		"no other share": {func(*millrace.Chain) (none millrace.Chain) { return none }, true},
		"a clone": {func(c *millrace.Chain) (d millrace.Chain) { c.CloneTo(&d); return d },
			false},
		"a clone, already released": {func(c *millrace.Chain) (none millrace.Chain) {
			var d millrace.Chain
			c.CloneTo(&d)
			d.Release()
			return none
		}, true},
		"a slice of the start": {func(c *millrace.Chain) (d millrace.Chain) {
			c.SliceTo(&d, 0, 1)
			return d
		}, false},
		"a cut": {func(c *millrace.Chain) (d millrace.Chain) {
			c.CutTo(&d, 3)
			return d
		}, false},
		"the other end": {cutBehind, false},
		"the other end, already released": {func(c *millrace.Chain) (none millrace.Chain) {
			d := cutBehind(c)
			d.Release()
			return none
		}, false},
		"merged and cut again": {func(c *millrace.Chain) (none millrace.Chain) {
			c.CutTo(&none, 2)
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
				t.Errorf("%d blocks taken, no other share: %v", n, test.alone)
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

// cutBehind cuts c after four bytes, and returns the rest.
func cutBehind(c *millrace.Chain) millrace.Chain {
	var front millrace.Chain
	c.CutTo(&front, 4)
	rest := *c
	*c = front
	return rest
}

// The Reader may continue to write into the block of its last packet. All holders of its packets
// keep the block.
func TestAppendCopyBehindAPacket(t *testing.T) {
	r := newPool(t).NewReader(bytes.NewReader(letters(30)), 4096)
	var c, d millrace.Chain
	more := func(c *millrace.Chain, when string, want int) {
		if n := taken(func() { c.AppendCopy([]byte("more")) }); n != want {
			t.Errorf("%d blocks taken %s, want %d", n, when, want)
		}
	}
	readChain(t, r, &c, 10)
	more(&c, "while the Reader has bytes behind the packet", 1)
	readChain(t, r, &d, 20)
	r.Release()
	more(&d, "while the first packet is held", 1)
	c.Release()
	d.Discard(d.Len() - len("more"))
	more(&d, "behind what the Chain has copied itself", 0)
	d.Release()

	r.Reset(bytes.NewReader(letters(30)))
	readChain(t, r, &c, 30)
	r.Release()
	more(&c, "when all other shares are released", 0)
	c.Release()
}

// Bytes copies the contents once if they are in several pieces.
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
	var empty millrace.Chain
	if empty.Bytes() != nil {
		t.Error("an empty Chain has bytes")
	}
}

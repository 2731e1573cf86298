package millrace_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/millrace-io/millrace"
)

func TestRefBytesCannotBeAppendedTo(t *testing.T) {
	r := freeze(millrace.NewPool(), []byte("0123456789"))
	s := r.Slice(2, 5)
	for _, b := range [][]byte{r.Bytes(), s.Bytes()} {
		if cap(b) != len(b) {
			t.Errorf("%q has a capacity of %d: append would write into the block", b, cap(b))
		}
	}
	r.Release()
	s.Release()
}

func TestDraftFreeze(t *testing.T) {
	pool := newPool(t)
	for _, n := range []int{0, 1, 511, 512} {
		d := pool.Get(512)
		r := d.Freeze(n)
		if r.Len() != n || len(r.Bytes()) != n {
			t.Errorf("Freeze(%d) has %d bytes", n, r.Len())
		}
		if d.Bytes() != nil {
			t.Error("the Draft is not empty after Freeze")
		}
		r.Release()
	}
	d := pool.Get(512)
	wantPanic(t, "Freeze(-1)", "millrace: Freeze of -1 bytes of a block of 512",
		func() { d.Freeze(-1) })
	wantPanic(t, "Freeze(513)", "millrace: Freeze of 513 bytes of a block of 512",
		func() { d.Freeze(513) })
	d.Release()
	d = millrace.Draft{}
	wantPanic(t, "Freeze of nothing", "millrace: Freeze of an empty Draft", func() { d.Freeze(0) })
}

// Refs cut from one Draft never change. They form one piece when joined, and none of them allows
// appending.
func TestDraftCut(t *testing.T) {
	pool := newPool(t)
	d := pool.Get(4096)
	size := len(d.Bytes())
	var all, odd millrace.Chain
	for i := range 1000 { // more shares than are preallocated
		p := []byte{byte(i), byte(i >> 8)}
		r := d.Cut(copy(d.Bytes(), p))
		if i%100 == 99 {
			odd.Append(&r)
			odd.AppendCopy([]byte("into a block of its own"))
			continue
		}
		all.Append(&r)
	}
	if n := len(d.Bytes()); n != size-2000 {
		t.Errorf("%d bytes are left of %d", n, size)
	}
	if all.Pieces() != 11-1 {
		t.Errorf("%d pieces, want one between the odd ones", all.Pieces())
	}
	wantPanic(t, "Cut too much", "millrace: Cut of", func() { d.Cut(len(d.Bytes()) + 1) })
	wantPanic(t, "Cut(-1)", "millrace: Cut of -1 bytes", func() { d.Cut(-1) })
	copy(d.Bytes(), "end")
	last := d.Freeze(3)
	if string(last.Bytes()) != "end" {
		t.Errorf("the last piece is %q", last.Bytes())
	}
	last.Release()
	p := all.Bytes()
	for i, at := 0, 0; i < 1000; i++ {
		if i%100 == 99 {
			continue
		}
		if p[at] != byte(i) || p[at+1] != byte(i>>8) {
			t.Fatalf("piece %d is %x", i, p[at:at+2])
		}
		at += 2
	}
	all.Release()
	odd.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are out", n)
	}
	d = pool.Get(512)
	r := d.Cut(512)
	if len(d.Bytes()) != 0 {
		t.Error("all was cut, and there is more")
	}
	d.Release()
	r.Release()
	d = millrace.Draft{}
	wantPanic(t, "Cut of nothing", "millrace: Cut of an empty Draft", func() { d.Cut(0) })
}

func TestRefSlice(t *testing.T) {
	pool := newPool(t)
	text := []byte("0123456789")
	r := freeze(pool, text)
	for from := -1; from <= len(text)+1; from++ {
		for to := -1; to <= len(text)+1; to++ {
			if from < 0 || to < from || to > len(text) {
				wantPanic(t, "Slice", "of a Ref of 10 bytes", func() { r.Slice(from, to) })
				continue
			}
			s := r.Slice(from, to)
			if !bytes.Equal(s.Bytes(), text[from:to]) || s.Len() != to-from {
				t.Errorf("Slice(%d, %d) = %q, %d bytes, want a part of the text", from, to,
					s.Bytes(), s.Len())
			}
			// A slice can be sliced again, even if it is empty or the last one.
			u := s.Slice(0, s.Len())
			s.Release()
			if !bytes.Equal(u.Bytes(), text[from:to]) {
				t.Errorf("Slice of Slice(%d, %d) = %q", from, to, u.Bytes())
			}
			u.Release()
		}
	}
	r.Release()
}

func TestEmptyRefs(t *testing.T) {
	var r millrace.Ref
	var d millrace.Draft
	if r.Len() != 0 || r.Bytes() != nil || d.Bytes() != nil {
		t.Error("zero values are not empty")
	}
	c, s := r.Clone(), r.Slice(0, 0)
	wantPanic(t, "Slice of an empty Ref", "millrace: Slice [0:1) of a Ref of 0 bytes",
		func() { r.Slice(0, 1) })
	r.Release()
	c.Release()
	s.Release()
	d.Release()
	var chain millrace.Chain
	if chain.Append(&r); chain.Len() != 0 || chain.Pieces() != 0 {
		t.Error("an empty Ref was appended")
	}
}

// The documentation states these sizes.
func TestSizes(t *testing.T) {
	if millrace.Invariants {
		t.Skip("-tags invariants adds to them")
	}
	if n := unsafe.Sizeof(millrace.Ref{}); n > 24 {
		t.Errorf("a Ref has %d bytes, more than 24", n)
	}
	if n := unsafe.Sizeof(millrace.Chain{}); n > 160 {
		t.Errorf("a Chain has %d bytes: too many to be a value", n)
	}
}

// The block is returned when the last share is released, in any order.
func TestBlockGoesBackWithTheLastShare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	pool := millrace.NewPool()
	for range 200 {
		shares := []millrace.Ref{freeze(pool, []byte("0123456789"))}
		for range rng.IntN(1000) {
			i := rng.IntN(len(shares))
			if rng.IntN(2) == 0 {
				i = len(shares) - 1 // clones of clones of clones
			}
			if n := shares[i].Len(); rng.IntN(2) == 0 {
				shares = append(shares, shares[i].Slice(n/2, n))
			} else {
				shares = append(shares, shares[i].Clone())
			}
		}
		rng.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
		for i := range shares {
			if !bytes.HasSuffix([]byte("0123456789"), shares[i].Bytes()) {
				t.Fatalf("a share reads %q", shares[i].Bytes())
			}
			if s := pool.Stats(); s.InUseBlocks != 1 {
				t.Fatalf("%d blocks in use with %d shares left", s.InUseBlocks, len(shares)-i)
			}
			shares[i].Release()
		}
		if s := pool.Stats(); s.InUseBlocks != 0 {
			t.Fatalf("%d blocks in use with no share left", s.InUseBlocks)
		}
	}
}

// Many goroutines clone and release their own shares at once.
func TestCloneStorm(t *testing.T) {
	pool := millrace.NewPool()
	r := freeze(pool, []byte("0123456789"))
	var goroutines sync.WaitGroup
	for seed := range uint64(8) {
		own := r.Clone()
		goroutines.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 3))
			shares := []millrace.Ref{own}
			for range rounds(20000) {
				i := rng.IntN(len(shares))
				if rng.IntN(2) == 0 && len(shares) < 100 {
					shares = append(shares, shares[i].Clone())
				} else if len(shares) > 1 {
					if string(shares[i].Bytes()) != "0123456789" {
						t.Error("a share has changed")
					}
					shares[i].Release()
					shares[i] = shares[len(shares)-1]
					shares = shares[:len(shares)-1]
				}
			}
			for i := range shares {
				shares[i].Release()
			}
		})
	}
	r.Release()
	goroutines.Wait()
	if s := pool.Stats(); s.InUse != 0 || s.Taken != 1 {
		t.Errorf("%+v, want one block taken and none in use", s)
	}
}

// The share count of a block cannot overflow into its generation.
func TestTooManyShares(t *testing.T) {
	pool := millrace.NewPool()
	r := freeze(pool, []byte("x"))
	added := millrace.AddShares(&r, 1<<31-512)
	a := r.Clone()
	wantPanic(t, "Clone", "millrace: more than 2147483648 shares of one block", func() {
		for range 1000 {
			b := a.Clone()
			defer b.Release()
			a, b = b, a
		}
	})
	a.Release()
	millrace.AddShares(&r, -added)
}

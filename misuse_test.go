package millrace_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// needInvariants skips a test for misuse that only -tags invariants detects.
func needInvariants(t *testing.T) {
	t.Helper()
	if !millrace.Invariants {
		t.Skip("needs -tags invariants")
	}
}

// A verb is an operation on a released share.
type verb[T any] struct {
	name string
	do   func(v *T)
}

var draftVerbs = []verb[millrace.Draft]{
	{"Bytes", func(d *millrace.Draft) { d.Bytes() }},
	{"Cut", func(d *millrace.Draft) { r := d.Cut(1); r.Release() }},
	{"Freeze", func(d *millrace.Draft) { d.Freeze(1) }},
	{"Release", func(d *millrace.Draft) { d.Release() }},
}

var refVerbs = []verb[millrace.Ref]{
	{"Bytes", func(r *millrace.Ref) { r.Bytes() }},
	{"Len", func(r *millrace.Ref) { r.Len() }},
	{"Clone", func(r *millrace.Ref) { r.Clone() }},
	{"Slice", func(r *millrace.Ref) { r.Slice(1, 2) }},
	{"Release", func(r *millrace.Ref) { r.Release() }},
	{"Append", func(r *millrace.Ref) { new(millrace.Chain).Append(r) }},
}

// Merge moves its argument without looking at it. The next call that looks at it panics.
var chainVerbs = []verb[millrace.Chain]{
	{"All", func(c *millrace.Chain) {
		for range c.All() {
			break
		}
	}},
	{"AppendCopy", func(c *millrace.Chain) { c.AppendCopy([]byte("x")) }},
	{"Slice", func(c *millrace.Chain) { c.SliceTo(new(millrace.Chain), 1, 2) }},
	{"Clone", func(c *millrace.Chain) { c.CloneTo(new(millrace.Chain)) }},
	{"Cut", func(c *millrace.Chain) { c.CutTo(new(millrace.Chain), 1) }},
	{"Discard", func(c *millrace.Chain) { c.Discard(c.Len()) }},
	{"Discard a part", func(c *millrace.Chain) { c.Discard(1) }},
	{"Release", func(c *millrace.Chain) { c.Release() }},
	{"CopyTo", func(c *millrace.Chain) { c.CopyTo(make([]byte, 1)) }},
	{"Bytes", func(c *millrace.Chain) { c.Bytes() }},
	{"WriteTo", func(c *millrace.Chain) { c.WriteTo(io.Discard) }},
	{"Reader.Read", func(c *millrace.Chain) { v := c.Reader(); v.Read(make([]byte, 1)) }},
	{"Reader.ReadAt", func(c *millrace.Chain) { v := c.Reader(); v.ReadAt(make([]byte, 1), 1) }},
	{"Merge, then Release", func(c *millrace.Chain) {
		var dst millrace.Chain
		dst.Merge(c)
		dst.Release()
	}},
}

func TestDraftMisuse(t *testing.T) {
	takeDraft := func(p *millrace.Pool) (millrace.Draft, millrace.Ref) {
		return p.Get(100), millrace.Ref{}
	}
	misuse(t, draftVerbs, takeDraft, (*millrace.Draft).Release)
}

func TestRefMisuse(t *testing.T) {
	takeRef := func(p *millrace.Pool) (r, other millrace.Ref) {
		r = freeze(p, []byte("released"))
		return r.Clone(), r
	}
	misuse(t, refVerbs, takeRef, (*millrace.Ref).Release)
}

func TestChainMisuse(t *testing.T) {
	takeChain := func(p *millrace.Pool) (c millrace.Chain, other millrace.Ref) {
		r := freeze(p, []byte("released"))
		s := r.Clone()
		c.Append(&s)
		return c, r
	}
	misuse(t, chainVerbs, takeChain, (*millrace.Chain).Release)
}

// misuse applies each verb to a copy of the result of take after the original was released, and
// again after the block was lent again. With -tags invariants, the verb must panic even if another
// share keeps the bytes alive.
func misuse[T any](t *testing.T, verbs []verb[T], take func(*millrace.Pool) (T, millrace.Ref),
	release func(*T)) {
	const again, beside = "after Release and another Get", "beside another share"
	cases := []string{"after Release", again}
	if millrace.Invariants {
		cases = append(cases, beside)
	}
	for _, v := range verbs {
		for _, when := range cases {
			t.Run(v.name+" "+when, func(t *testing.T) {
				pool := newPool(t)
				kept, other := take(pool)
				copied := kept
				release(&kept)
				if when != beside {
					other.Release()
				}
				var next millrace.Ref
				if when == again {
					next = freeze(pool, []byte("the next owner's"))
				}
				wantMisuse(t, func() { v.do(&copied) })
				if when == again && string(next.Bytes()) != "the next owner's" {
					t.Errorf("the next owner reads %q", next.Bytes())
				}
				next.Release()
				other.Release()
			})
		}
	}
}

// wantMisuse checks that f panics because of a share of a returned block. With -tags invariants,
// the panic must name the functions that took and released the share.
func wantMisuse(t *testing.T, f func()) {
	t.Helper()
	message := panicText(f)
	want := []string{"millrace: ", "after its block went back to the pool"}
	if strings.Contains(message, "release of") {
		want[1] = "already went back to the pool (released twice?)"
	}
	if millrace.Invariants {
		want = []string{"millrace: ", "taken at:\n", "first released at:\n", "misuse_test.go:"}
	}
	for _, w := range want {
		if !strings.Contains(message, w) {
			t.Errorf("the panic lacks %q: %s", w, message)
		}
	}
}

// The following functions are looked for in stacks.

//go:noinline
func takeIt(p *millrace.Pool) millrace.Ref { return freeze(p, []byte("text")) }

//go:noinline
func cloneIt(r *millrace.Ref) millrace.Ref { return r.Clone() }

//go:noinline
func releaseTheFirstTime(r *millrace.Ref) { r.Release() }

//go:noinline
func releaseTheSecondTime(r *millrace.Ref) { r.Release() }

// While other shares keep the block alive, a second release takes away the share of another owner.
// The last legitimate owner panics. With -tags invariants, the second release panics, with the
// stacks of both calls.
func TestDoubleReleaseBesideOtherShares(t *testing.T) {
	pool := millrace.NewPool()
	r := freeze(pool, []byte("shared"))
	s := cloneIt(&r)
	copied := s
	releaseTheFirstTime(&s)
	if !millrace.Invariants {
		releaseTheSecondTime(&copied)
		wantPanic(t, "the last release", "millrace: release of more shares of a block than were taken", r.Release)
		return
	}
	message := panicText(func() { releaseTheSecondTime(&copied) })
	for _, want := range []string{
		"millrace: released twice\ntaken at:\n",
		"millrace_test.cloneIt\n", "first released at:\n", "millrace_test.releaseTheFirstTime\n",
		"released again at:\n", "millrace_test.releaseTheSecondTime\n", "misuse_test.go:",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("the panic lacks %q: %s", want, message)
		}
	}
	if string(r.Bytes()) != "shared" {
		t.Errorf("the other share reads %q", r.Bytes())
	}
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// A released variable is empty. Its use does nothing, unless the program is built with -tags
// invariants. It may be released again, and a Chain may be filled again.
func TestUseOfAReleasedVariable(t *testing.T) {
	var nothing millrace.Chain
	for name, use := range map[string]func(r *millrace.Ref, c *millrace.Chain) int{
		"Ref.Bytes": func(r *millrace.Ref, _ *millrace.Chain) int { return len(r.Bytes()) },
		"Ref.Len":   func(r *millrace.Ref, _ *millrace.Chain) int { return r.Len() },
		"Ref.Clone": func(r *millrace.Ref, _ *millrace.Chain) int {
			s := r.Clone()
			return s.Len()
		},
		"Ref.Slice": func(r *millrace.Ref, _ *millrace.Chain) int {
			s := r.Slice(0, 0)
			return s.Len()
		},
		"Append": func(r *millrace.Ref, _ *millrace.Chain) int {
			nothing.Append(r)
			return nothing.Len()
		},
		"Chain.Bytes": func(_ *millrace.Ref, c *millrace.Chain) int { return len(c.Bytes()) },
		"Chain.CopyTo": func(_ *millrace.Ref, c *millrace.Chain) int {
			return c.CopyTo(make([]byte, 1))
		},
		"Chain.CloneTo": func(_ *millrace.Ref, c *millrace.Chain) int {
			c.CloneTo(&nothing)
			return nothing.Len()
		},
		"Chain.All": func(_ *millrace.Ref, c *millrace.Chain) (n int) {
			for p := range c.All() {
				n += len(p)
			}
			return n
		},
		"Chain.WriteTo": func(_ *millrace.Ref, c *millrace.Chain) int {
			n, _ := c.WriteTo(io.Discard)
			return int(n)
		},
		"Chain.Reader": func(_ *millrace.Ref, c *millrace.Chain) int {
			v := c.Reader()
			n, _ := v.Read(make([]byte, 1))
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t)
			r := freeze(pool, []byte("text"))
			var c millrace.Chain
			for range 2 {
				s := freeze(pool, []byte("more"))
				c.Append(&s)
				c.Bytes() // a Chain may be filled again
				c.Release()
			}
			r.Release()
			if millrace.Invariants {
				message := panicText(func() { use(&r, &c) })
				for _, want := range []string{"millrace: use ", "Release\n", "released at:\n",
					"misuse_test.go:"} {
					if !strings.Contains(message, want) {
						t.Errorf("the panic lacks %q: %s", want, message)
					}
				}
			} else if n := use(&r, &c); n != 0 {
				t.Errorf("%d bytes of a released variable", n)
			}
			r.Release()
			c.Release()
		})
	}
}

// A released Draft is empty. Freeze panics in every build, and Bytes panics with -tags invariants.
// A second Release and the zero Draft never panic.
func TestUseOfAReleasedDraft(t *testing.T) {
	var zero, d millrace.Draft
	for range 2 {
		d = millrace.NewPool().Get(10)
		d.Release()
	}
	d.Release()
	if n := len(zero.Bytes()); n != 0 {
		t.Errorf("the zero Draft has %d bytes", n)
	}
	if !millrace.Invariants {
		if n := len(d.Bytes()); n != 0 {
			t.Errorf("%d bytes of a released Draft", n)
		}
		wantPanic(t, "Freeze", "millrace: Freeze of an empty Draft", func() { d.Freeze(0) })
		return
	}
	wantMisuse(t, func() { d.Bytes() })
	wantMisuse(t, func() { d.Freeze(0) })
}

// Freeze, Append, Merge and Join leave their arguments empty.
func TestUseAfterHandingOn(t *testing.T) {
	needInvariants(t)
	pool := millrace.NewPool()
	d := pool.Get(10)
	early := d
	r := d.Freeze(10)
	wantMisuse(t, func() { early.Bytes()[0] = 'x' })
	wantMisuse(t, early.Release)

	next := r.Slice(5, 10)
	first := r.Slice(0, 5)
	copied := next
	var c millrace.Chain
	c.Append(&first)
	c.Append(&next) // becomes part of the first
	wantMisuse(t, copied.Release)
	c.Release()
	r.Release()
}

// If a stale piece panics in the middle of a write, the next write does not send anything of that
// write.
func TestWriteToAfterAPanic(t *testing.T) {
	client, server := nettest.TCPPair(t, false)
	pool := millrace.NewPool()
	for range 4 { // later owners may get the same block
		var c millrace.Chain
		for _, p := range []string{"secret", "stale"} {
			r := freeze(pool, []byte(p))
			c.Append(&r)
		}
		copied := c
		var front millrace.Chain
		c.CutTo(&front, len("secret"))
		c.Release()
		wantMisuse(t, func() { copied.WriteTo(client) })
		front.Release()
	}
	var c millrace.Chain
	for _, p := range []string{"this ", "and ", "nothing else"} {
		r := freeze(pool, []byte(p))
		c.Append(&r)
	}
	if _, err := c.WriteTo(client); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	if got := must(io.ReadAll(server)); string(got) != "this and nothing else" {
		t.Errorf("received %q, want what was written after the panic", got)
	}
}

func TestReleasedMemoryIsPoisoned(t *testing.T) {
	needInvariants(t)
	pool := millrace.NewPool()
	r := takeIt(pool)
	s := r.Slice(1, 3)
	b := r.Bytes()
	r.Release()
	if string(b) != "text" {
		t.Errorf("the memory reads %q while there is a share", b)
	}
	s.Release()
	if !bytes.Equal(b, bytes.Repeat([]byte{0xDB}, 4)) {
		t.Errorf("released memory reads %q", b)
	}
}

// Bytes lent by ReadRange or Peek are overwritten after the loan.
func TestLentMemoryIsPoisoned(t *testing.T) {
	needInvariants(t)
	r := millrace.NewReader(strings.NewReader("some text that is longer than that"))
	defer r.Release()
	var lent []byte
	if err := r.ReadRange(9, func(p []byte) { lent = p }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(lent, bytes.Repeat([]byte{0xDB}, 9)) {
		t.Errorf("what was lent reads %q afterwards", lent)
	}
	peeked, _ := r.Peek(5)
	if string(peeked) != " that" {
		t.Errorf("the bytes behind it read %q", peeked)
	}
	r.Skip(100)
	if string(peeked) == " that" {
		t.Error("what was peeked still reads well after the next read")
	}
}

// Leaks names the functions that took shares, including a Reader's. Without -tags invariants it
// returns nothing.
func TestLeaks(t *testing.T) {
	pool, other := newPool(t), newPool(t)
	d := other.Get(10)
	r := takeIt(pool)
	s := cloneIt(&r)
	reader := pool.NewReader(strings.NewReader("text"), 4096)
	reader.ReadByte()
	expect := func(takers ...string) {
		t.Helper()
		leaks := pool.Leaks()
		if !millrace.Invariants {
			takers = nil
		}
		if len(leaks) != len(takers) {
			t.Fatalf("%d leaks, want %d: %v", len(leaks), len(takers), leaks)
		}
		for i, taker := range takers {
			if !strings.HasPrefix(leaks[i], "a share of a block of ") ||
				!strings.Contains(leaks[i], "_test."+taker+"\n") {
				t.Errorf("leak %d was not taken by %s: %s", i, taker, leaks[i])
			}
		}
	}
	expect("takeIt", "cloneIt", "TestLeaks")
	var c millrace.Chain
	c.Append(&r)
	c.Append(&s)
	expect("takeIt", "cloneIt", "TestLeaks")
	c.Release()
	expect("TestLeaks")
	reader.Release()
	expect()
	d.Release()
}

package millrace_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

// A way builds a Chain of given bytes. What comes out differs inside and must not differ in what it does.
type way struct {
	name  string
	build func(pool *millrace.Pool, c *millrace.Chain, p []byte)
}

var ways = []way{
	{"one piece", func(pool *millrace.Pool, c *millrace.Chain, p []byte) { addBlocks(pool, c, p, len(p)) }},
	{"three blocks", func(pool *millrace.Pool, c *millrace.Chain, p []byte) { addBlocks(pool, c, p, (len(p)+2)/3) }},
	{"a block a byte", func(pool *millrace.Pool, c *millrace.Chain, p []byte) { addBlocks(pool, c, p, 1) }},
	{"neighbours", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		r := freeze(pool, p)
		for at := 0; at < len(p); at += 3 {
			s := r.Slice(at, min(at+3, len(p)))
			c.Append(&s)
		}
		r.Release()
	}},
	{"views", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		var whole millrace.Chain
		addBlocks(pool, &whole, bytes.Join([][]byte{[]byte("before"), p, []byte("behind")}, nil), 4)
		whole.Slice(c, len("before"), len("before")+len(p))
		whole.Release()
	}},
	{"behind what was dropped", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		addBlocks(pool, c, []byte("abc"), 1)
		half := len(p) / 2
		c.AppendCopy(p[:half])
		c.Discard(3)
		c.AppendCopy(p[half:])
	}},
	{"behind many that were dropped", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		junk := bytes.Repeat([]byte("junk"), 10)
		addBlocks(pool, c, junk, 1)
		addBlocks(pool, c, p, 2)
		c.Discard(len(junk))
	}},
	{"in room for many", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		addBlocks(pool, c, []byte("emptied"), 1)
		c.Release()
		addBlocks(pool, c, p, 5)
	}},
	{"copied in steps", func(_ *millrace.Pool, c *millrace.Chain, p []byte) {
		for _, b := range p {
			c.AppendCopy([]byte{b})
		}
	}},
	{"merged", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		r := freeze(pool, p)
		for at := range p {
			var d millrace.Chain
			s := r.Slice(at, at+1)
			d.Append(&s)
			c.Merge(&d)
		}
		r.Release()
	}},
	{"read", func(pool *millrace.Pool, c *millrace.Chain, p []byte) {
		r := pool.NewReader(bytes.NewReader(p), 16)
		for left := len(p); left > 0; left -= min(left, 5) {
			if err := r.ReadChain(c, min(left, 5)); err != nil {
				panic(err)
			}
		}
		r.Release()
	}},
	{"ReadFrom", func(_ *millrace.Pool, c *millrace.Chain, p []byte) {
		if _, err := c.ReadFrom(iotest.HalfReader(bytes.NewReader(p))); err != nil {
			panic(err)
		}
	}},
}

// addBlocks adds p to c in blocks of n bytes each, which are not neighbours.
func addBlocks(pool *millrace.Pool, c *millrace.Chain, p []byte, n int) {
	for len(p) > 0 {
		r := freeze(pool, p[:min(n, len(p))])
		p = p[r.Len():]
		c.Append(&r)
	}
}

// letters returns n bytes in which no two that are near are alike.
func letters(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[i%62]
	}
	return p
}

// checkChain looks at c in every way there is, and expects to see want.
func checkChain(t testing.TB, what string, c *millrace.Chain, want []byte) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s", what, fmt.Sprintf(format, args...))
	}
	if err := millrace.Broken(c); err != nil {
		fail("%v", err)
	}
	if c.Len() != len(want) {
		fail("Len() = %d, want %d", c.Len(), len(want))
	}
	var all []byte
	pieces := 0
	for p := range c.All() {
		if len(p) == 0 || cap(p) != len(p) {
			fail("piece %d has %d bytes, cap %d", pieces, len(p), cap(p))
		}
		all = append(all, p...)
		pieces++
	}
	if !bytes.Equal(all, want) {
		fail("All yields %q, want %q", all, want)
	}
	if n := c.Pieces(); n != pieces {
		fail("Pieces() = %d, All yields %d", n, pieces)
	}
	for _, n := range []int{0, 1, len(want) / 2, len(want), len(want) + 3} {
		p := bytes.Repeat([]byte{'!'}, n)
		if m := c.CopyTo(p); m != min(n, len(want)) || !bytes.Equal(p[:m], want[:m]) || strings.Trim(string(p[m:]), "!") != "" {
			fail("CopyTo of %d bytes = %d, %q", n, m, p)
		}
	}
	checkView(t, what, c, want)
	checkCopies(t, what, c, want)
}

// checkView looks at c through its io.Reader.
func checkView(t testing.TB, what string, c *millrace.Chain, want []byte) {
	t.Helper()
	v := c.Reader()
	if err := iotest.TestReader(&v, want); err != nil { // Read, ReadAt, Seek
		t.Errorf("%s: %v", what, err)
	}
	v.Seek(0, io.SeekStart)
	for i, b := range want {
		if n := v.Len(); n != len(want)-i {
			t.Errorf("%s: Len() = %d after %d of %d bytes", what, n, i, len(want))
		}
		if got, err := v.ReadByte(); got != b || err != nil {
			t.Errorf("%s: ReadByte() = %q, %v at %d, want %q", what, got, err, i, b)
		}
	}
	if _, err := v.ReadByte(); err != io.EOF || v.Len() != 0 {
		t.Errorf("%s: ReadByte at the end: %v, Len() = %d", what, err, v.Len())
	}
}

// checkCopies does to clones of c what would change c itself.
func checkCopies(t testing.TB, what string, c *millrace.Chain, want []byte) {
	t.Helper()
	var clone millrace.Chain
	c.Clone(&clone)
	if got := clone.Bytes(); !bytes.Equal(got, want) || len(got) != cap(got) {
		t.Errorf("%s: Bytes() = %q, cap %d, want %q", what, got, cap(got), want)
	}
	if clone.Pieces() > 1 {
		t.Errorf("%s: %d pieces after Bytes", what, clone.Pieces())
	}
	clone.Release()
	c.Clone(&clone)
	var written bytes.Buffer
	if n, err := clone.WriteTo(&written); n != int64(len(want)) || err != nil || !bytes.Equal(written.Bytes(), want) {
		t.Errorf("%s: WriteTo = %d, %v, wrote %q, want %q", what, n, err, written.Bytes(), want)
	}
	if clone.Len() != 0 || clone.Pieces() != 0 {
		t.Errorf("%s: %d bytes left after WriteTo", what, clone.Len())
	}
	if c.Len() != len(want) || c.CopyTo(make([]byte, len(want))) != len(want) {
		t.Errorf("%s: has %d bytes after looking at clones, want %d", what, c.Len(), len(want))
	}
}

// onEveryWay runs test for each way to build p, and checks that everything went back to the pools.
func onEveryWay(t *testing.T, p []byte, test func(t *testing.T, pool *millrace.Pool, c *millrace.Chain)) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			pool := millrace.NewPool()
			outside := millrace.DefaultPool.Stats().InUse
			var c millrace.Chain
			w.build(pool, &c, p)
			test(t, pool, &c)
			if n := pool.Stats().InUse; n != 0 {
				t.Errorf("%d bytes of the pool in use at the end", n)
			}
			if n := millrace.DefaultPool.Stats().InUse; n != outside {
				t.Errorf("%d bytes of the default pool in use at the end, want %d", n, outside)
			}
		})
	}
}

func TestChainLooksTheSameHoweverItWasBuilt(t *testing.T) {
	for _, n := range []int{0, 1, 2, 20, 70} {
		p := letters(n)
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onEveryWay(t, p, func(t *testing.T, _ *millrace.Pool, c *millrace.Chain) {
				checkChain(t, "new", c, p)
				c.Release()
				checkChain(t, "released", c, nil)
				c.Release()
			})
		})
	}
}

// chainOps is what can be done to a Chain. Each works on c, which holds p, and returns what c holds then; others may
// come of it, by name. x, which holds "other", is there to be combined with.
var chainOps = []struct {
	name string
	do   func(s *scene) []byte
}{
	{"nothing", func(s *scene) []byte { return s.p }},
	{"Append", func(s *scene) []byte {
		r := freeze(s.pool, []byte("more"))
		s.c.Append(&r)
		s.empty("the Ref", r.Len())
		return join(s.p, "more")
	}},
	{"Append part", func(s *scene) []byte {
		r := freeze(s.pool, []byte("more"))
		part := r.Slice(1, 3)
		s.c.Append(&part)
		s.c.Append(&r)
		return join(s.p, "ormore")
	}},
	{"Append nothing", func(s *scene) []byte {
		r := freeze(s.pool, []byte("more"))
		none := r.Slice(2, 2)
		s.c.Append(&none)
		s.c.Append(&none)
		s.c.Append(new(millrace.Ref))
		r.Release()
		return s.p
	}},
	{"AppendCopy", func(s *scene) []byte { s.c.AppendCopy([]byte("more")); return join(s.p, "more") }},
	{"AppendCopy nothing", func(s *scene) []byte { s.c.AppendCopy(nil); s.c.AppendCopy([]byte{}); return s.p }},
	{"AppendCopy much", func(s *scene) []byte {
		much := string(letters(3000))
		s.c.AppendCopy([]byte(much))
		s.c.AppendCopy([]byte("!"))
		return join(s.p, much+"!")
	}},
	{"AppendCopy of itself", func(s *scene) []byte {
		s.c.AppendCopy(s.c.Bytes())
		return append(bytes.Clone(s.p), s.p...)
	}},
	{"Merge", func(s *scene) []byte {
		s.c.Merge(&s.x)
		s.empty("what was merged", s.x.Len())
		s.x.AppendCopy([]byte("again"))
		s.see("what was merged", &s.x, "again")
		return join(s.p, "other")
	}},
	{"Merge into another", func(s *scene) []byte {
		s.x.Merge(s.c)
		s.see("the other", &s.x, "other"+string(s.p))
		return nil
	}},
	{"Merge into an empty one", func(s *scene) []byte {
		var empty millrace.Chain
		empty.Merge(s.c)
		s.c.AppendCopy([]byte("new"))
		s.see("the other", &empty, string(s.p))
		return []byte("new")
	}},
	{"Merge nothing", func(s *scene) []byte { s.c.Merge(new(millrace.Chain)); return s.p }},
	{"Cut", func(s *scene) []byte {
		n := len(s.p) / 3
		s.c.Cut(&s.x, n)
		s.see("what was cut", &s.x, "other"+string(s.p[:n]))
		return s.p[n:]
	}},
	{"Cut and Merge back", func(s *scene) []byte {
		var front millrace.Chain
		s.c.Cut(&front, len(s.p)/2)
		front.Merge(s.c)
		s.c.Merge(&front)
		return s.p
	}},
	{"Cut all", func(s *scene) []byte {
		s.c.Cut(&s.x, len(s.p))
		s.see("what was cut", &s.x, "other"+string(s.p))
		return nil
	}},
	{"Slice", func(s *scene) []byte {
		from, to := len(s.p)/4, len(s.p)*3/4
		s.c.Slice(&s.x, from, to)
		s.see("the slice", &s.x, "other"+string(s.p[from:to]))
		return s.p
	}},
	{"Clone", func(s *scene) []byte {
		s.c.Clone(&s.x)
		s.see("the clone", &s.x, "other"+string(s.p))
		return s.p
	}},
	{"Clone, then Release", func(s *scene) []byte {
		s.c.Clone(&s.x)
		s.c.Release()
		s.see("the clone", &s.x, "other"+string(s.p))
		return nil
	}},
	{"Clone, then AppendCopy to both", func(s *scene) []byte {
		var clone millrace.Chain
		s.c.Clone(&clone)
		clone.AppendCopy([]byte("clone's"))
		s.c.AppendCopy([]byte("own"))
		s.see("the clone", &clone, string(s.p)+"clone's")
		return join(s.p, "own")
	}},
	{"Discard", func(s *scene) []byte { n := len(s.p) / 3; s.c.Discard(n); return s.p[n:] }},
	{"Discard all", func(s *scene) []byte { s.c.Discard(len(s.p)); return nil }},
	{"Release, then AppendCopy", func(s *scene) []byte {
		s.c.Release()
		s.c.AppendCopy([]byte("new"))
		return []byte("new")
	}},
	{"Bytes", func(s *scene) []byte { s.c.Bytes(); return s.p }},
	{"ReadFrom", func(s *scene) []byte {
		s.c.ReadFrom(strings.NewReader("more"))
		return join(s.p, "more")
	}},
	{"WriteTo a writer that fails", func(s *scene) []byte {
		n := len(s.p) / 2
		s.c.WriteTo(&failingAt{at: n})
		return s.p[n:]
	}},
	{"move", func(s *scene) []byte {
		moved := *s.c
		*s.c = millrace.Chain{}
		moved.AppendCopy([]byte("moved"))
		s.see("where it was moved", &moved, string(s.p)+"moved")
		return nil
	}},
}

func join(p []byte, more string) []byte { return append(bytes.Clone(p), more...) }

// A scene is what an op plays in.
type scene struct {
	t    *testing.T
	pool *millrace.Pool
	c    *millrace.Chain
	p    []byte
	x    millrace.Chain
}

func (s *scene) empty(what string, n int) {
	if n != 0 {
		s.t.Errorf("%s still has %d bytes", what, n)
	}
}

// see checks what came of an op besides c, and releases it.
func (s *scene) see(what string, c *millrace.Chain, want string) {
	s.t.Helper()
	checkChain(s.t, what, c, []byte(want))
	c.Release()
}

func TestChainOps(t *testing.T) {
	for _, op := range chainOps {
		t.Run(op.name, func(t *testing.T) {
			for _, n := range []int{0, 1, 7, 23} {
				p := letters(n)
				onEveryWay(t, p, func(t *testing.T, pool *millrace.Pool, c *millrace.Chain) {
					s := &scene{t: t, pool: pool, c: c, p: p}
					addBlocks(pool, &s.x, []byte("other"), 2)
					want := op.do(s)
					checkChain(t, "the Chain", c, want)
					c.Release()
					s.x.Release()
				})
			}
		})
	}
}

// failingAt takes bytes until there have been at, and then returns err, or errFull.
type failingAt struct {
	bytes.Buffer
	at  int
	err error
}

func (w *failingAt) Write(p []byte) (int, error) {
	if room := w.at - w.Len(); room < len(p) {
		w.Buffer.Write(p[:room])
		if w.err == nil {
			return room, io.ErrClosedPipe
		}
		return room, w.err
	}
	return w.Buffer.Write(p)
}

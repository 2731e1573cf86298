//go:build unix && !race && !invariants

package millrace_test

import (
	"io"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// wantNoAllocs checks that a hundred calls of f allocate nothing after a warm-up.
func wantNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	for range 200 {
		f()
	}
	hundred := func() {
		for range 100 {
			f()
		}
	}
	if n := alloctest.Count(0, hundred); n != 0 {
		t.Errorf("%s: %v allocations in a hundred calls, want 0", what, n)
	}
}

// endless is an infinite source of lines of 50 bytes.
type endless struct{ line []byte }

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.line), nil }

func newEndless() *endless {
	e := &endless{line: make([]byte, 5000)}
	for i := range e.line {
		if e.line[i] = byte('a' + i%26); i%50 == 49 {
			e.line[i] = '\n'
		}
	}
	return e
}

var anEndless = newEndless()

// In steady state, a Reader allocates nothing except the copies that ReadBytes and ReadString
// return.
func TestReaderAllocations(t *testing.T) {
	buf := make([]byte, 300)
	var c millrace.Chain
	for name, call := range map[string]func(r *millrace.Reader){
		"ReadRange":                      func(r *millrace.Reader) { r.ReadRange(1000, touch) },
		"ReadRange, larger than a block": func(r *millrace.Reader) { r.ReadRange(100_000, touch) },
		"ReadRange with a closure": func(r *millrace.Reader) {
			n := 0
			r.ReadRange(1024, func(p []byte) { n += len(p) })
		},
		"ReadChain, Release": func(r *millrace.Reader) { r.ReadChain(&c, 1000); c.Release() },
		"ReadChainDelim, Release": func(r *millrace.Reader) {
			r.ReadChainDelim(&c, '\n', 1000)
			c.Release()
		},
		"ReadRef, Release": func(r *millrace.Reader) {
			p, _ := r.ReadRef(1000)
			p.Release()
		},
		"a Chain on the stack": func(r *millrace.Reader) {
			var c millrace.Chain
			r.ReadChain(&c, 9000)
			c.Release()
		},
		"a window of packets": func(r *millrace.Reader) {
			r.ReadChain(&c, 1000)
			if c.Len() > 100_000 {
				c.Discard(1000)
			}
		},
		"ReadChain for ten": func(r *millrace.Reader) {
			var c millrace.Chain
			var others [10]millrace.Chain
			r.ReadChain(&c, 1024)
			for i := range others {
				c.CloneTo(&others[i])
			}
			c.Release()
			for i := range others {
				others[i].Release()
			}
		},
		"Read": func(r *millrace.Reader) { r.Read(buf) },
		"ReadByte, UnreadByte": func(r *millrace.Reader) {
			r.ReadByte()
			r.UnreadByte()
			r.ReadByte()
		},
		"ReadRune, UnreadRune": func(r *millrace.Reader) {
			r.ReadRune()
			r.UnreadRune()
			r.ReadRune()
		},
		"Peek, Discard": func(r *millrace.Reader) { r.Peek(1000); r.Discard(1000) },
		"Skip":          func(r *millrace.Reader) { r.Skip(20000) },
		"ReadSlice":     func(r *millrace.Reader) { r.ReadSlice('\n') },
		"ReadLine":      func(r *millrace.Reader) { r.ReadLine() },
		"integers": func(r *millrace.Reader) {
			r.ReadBE(3)
			r.ReadLE(8)
			r.ReadUvarint()
			r.ReadULEB128()
		},
		"Reset": func(r *millrace.Reader) { r.ReadByte(); r.Reset(anEndless) },
		"Release, Reset": func(r *millrace.Reader) {
			r.ReadByte()
			r.Release()
			r.Reset(anEndless)
		},
	} {
		r := millrace.NewReader(newEndless())
		for range 2000 { // until the size of the block has settled
			call(r)
		}
		wantNoAllocs(t, name, func() { call(r) })
		c.Release()
		r.Release()
	}
}

// Waiting for a socket allocates nothing either.
func TestReaderAllocationsOnASocket(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		r := millrace.NewReader(client)
		defer r.Release()
		go func() {
			b := make([]byte, 1)
			for {
				if _, err := server.Read(b); err != nil {
					return
				}
				if _, err := server.Write(anEndless.line[:1000]); err != nil {
					return
				}
			}
		}()
		request := []byte("?")
		var c millrace.Chain
		for name, call := range map[string]func(){
			"ReadRange": func() { client.Write(request); r.ReadRange(1000, touch) },
			"ReadChain": func() { client.Write(request); r.ReadChain(&c, 1000); c.Release() },
			"a packet kept across the wait": func() {
				client.Write(request)
				var next millrace.Chain
				r.ReadChain(&next, 1000)
				c.Release()
				c.Merge(&next)
			},
		} {
			wantNoAllocs(t, name, call)
		}
		c.Release()
		client.Close()
	})
}

// TestSpoolAllocations checks that the parts of an upload share their lists of pieces. A part
// allocates a Body and a place, even if the list is longer than a released Chain would keep.
func TestSpoolAllocations(t *testing.T) {
	const parts = 20
	spool := millrace.NewSpool(20<<20, 1) // 320 pieces of 64 KiB
	r := millrace.NewReader(newEndless())
	defer r.Release()
	upload := func() {
		for range parts {
			part := must(spool.Next(t.Context(), r))
			io.Copy(io.Discard, part)
			part.Close()
		}
	}
	if n := alloctest.Count(2*parts, upload); n != 2*parts {
		t.Errorf("%v allocations for %d parts, want %d", n, parts, 2*parts)
	}
}

func TestSharingAllocatesNothing(t *testing.T) {
	pool := millrace.NewPool()
	var c millrace.Chain
	addBlocks(pool, &c, letters(4000), 1000)
	defer c.Release()
	wantNoAllocs(t, "Chain.CloneTo and Release", func() {
		var d millrace.Chain
		c.CloneTo(&d)
		d.Release()
	})
	wantNoAllocs(t, "Chain.SliceTo, CutTo, Merge and Discard", func() {
		var d, front millrace.Chain
		c.SliceTo(&d, 500, 3500)
		d.CutTo(&front, 1000)
		front.Merge(&d)
		front.Discard(100)
		front.Release()
	})
	r := freeze(pool, letters(1000))
	defer r.Release()
	wantNoAllocs(t, "Ref.Clone and Slice", func() {
		s, u := r.Clone(), r.Slice(1, 2)
		s.Release()
		u.Release()
	})
	var d millrace.Chain
	wantNoAllocs(t, "Append and Release", func() {
		s, u := r.Clone(), r.Clone()
		d.Append(&s)
		d.Append(&u)
		d.Release()
	})
	wantNoAllocs(t, "Append of many and Release", func() {
		for range 100 {
			s := r.Clone()
			d.Append(&s)
		}
		d.Release()
	})
	wantNoAllocs(t, "a queue that is never empty", func() {
		for range 10 {
			s := r.Clone()
			d.Append(&s)
		}
		d.Discard(max(0, d.Len()-50*r.Len()))
	})
	d.Release()
}

func TestCopyingInAndOutAllocatesNothing(t *testing.T) {
	header, buf := []byte("a header"), make([]byte, 10_000)
	var c millrace.Chain
	wantNoAllocs(t, "AppendCopy and Release", func() {
		c.AppendCopy(header)
		c.Release()
	})
	wantNoAllocs(t, "AppendCopy into its own block", func() {
		for range 100 {
			c.AppendCopy(header)
		}
		c.Release()
	})
	addBlocks(millrace.DefaultPool(), &c, letters(10_000), 500)
	defer c.Release()
	wantNoAllocs(t, "CopyTo and All", func() {
		c.CopyTo(buf)
		for p := range c.All() {
			touch(p)
		}
	})
	wantNoAllocs(t, "Bytes of several pieces", func() {
		var d millrace.Chain
		c.SliceTo(&d, 0, 1500)
		touch(d.Bytes())
		d.Release()
	})
	wantNoAllocs(t, "Reader", func() {
		v := c.Reader()
		v.Seek(700, io.SeekStart)
		v.Read(buf)
		v.ReadAt(buf, 100)
	})
}

func TestWriteToAllocatesNothing(t *testing.T) {
	client, server := nettest.TCPPair(t, false)
	go io.Copy(io.Discard, server)
	var c millrace.Chain
	addBlocks(millrace.DefaultPool(), &c, letters(100_000), 1000)
	defer c.Release()
	for what, n := range map[string]int{"one piece": 1000, "three pieces": 3000,
		"a hundred pieces": 100_000} {
		var out millrace.Chain
		wantNoAllocs(t, what, func() {
			c.SliceTo(&out, 0, n)
			if _, err := out.WriteTo(client); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	pool := millrace.NewPool()
	wantNoAllocs(t, "Get and Release", func() {
		d := pool.Get(4096)
		d.Release()
	})
	wantNoAllocs(t, "Get, Freeze and Release", func() {
		d := pool.Get(4096)
		r := d.Freeze(100)
		r.Release()
	})
	var drafts [100]millrace.Draft
	wantNoAllocs(t, "a hundred at once", func() {
		for i := range drafts {
			drafts[i] = pool.Get(1000)
		}
		for i := range drafts {
			drafts[i].Release()
		}
	})
	wantNoAllocs(t, "Stats", func() { pool.Stats() })
}

// A block and the memory for its place in the idle list are allocated together. So even the first
// Release allocates nothing.
func TestReleaseAllocatesNothingFromTheStart(t *testing.T) {
	const n = 1000
	// Two sets for each attempt: AllocsPerRun calls its function once before it counts.
	var sets [6][]millrace.Ref
	for i := range sets {
		pool := millrace.NewPool()
		for range n {
			d := pool.Get(1 << 10)
			sets[i] = append(sets[i], d.Freeze(1))
		}
	}
	i := 0
	for i < len(sets) {
		if got := testing.AllocsPerRun(1, func() {
			for k := range sets[i] {
				sets[i][k].Release()
			}
			i++
		}); got == 0 {
			break
		} else if i == len(sets) {
			t.Errorf("%d releases made %v allocations, want 0", n, got)
		}
	}
	for ; i < len(sets); i++ {
		for k := range sets[i] {
			sets[i][k].Release()
		}
	}
}

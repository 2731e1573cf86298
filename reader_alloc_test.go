//go:build unix && !race && !invariants

package millrace_test

import (
	"testing"

	"github.com/millrace-io/millrace"
)

// endless gives lines of 50 bytes, as many as there is room for, for ever.
type endless struct{ line []byte }

func newEndless() *endless {
	e := &endless{line: make([]byte, 5000)}
	for i := range e.line {
		if e.line[i] = byte('a' + i%26); i%50 == 49 {
			e.line[i] = '\n'
		}
	}
	return e
}

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.line), nil }

// In steady state nothing that a Reader does makes garbage, but for what the caller is given to keep.
func TestReaderAllocations(t *testing.T) {
	buf := make([]byte, 300)
	lend := func([]byte) {}
	var c millrace.Chain
	for name, test := range map[string]struct {
		allocs float64
		call   func(r *millrace.Reader)
	}{
		"ReadRange":            {0, func(r *millrace.Reader) { r.ReadRange(1000, lend) }},
		"ReadChain, Release":   {0, func(r *millrace.Reader) { r.ReadChain(&c, 1000); c.Release() }},
		"a Chain on the stack": {0, func(r *millrace.Reader) { var c millrace.Chain; r.ReadChain(&c, 9000); c.Release() }},
		"a window of packets": {0, func(r *millrace.Reader) {
			r.ReadChain(&c, 1000)
			if c.Len() > 100_000 {
				c.Discard(1000)
			}
		}},
		"Read":                 {0, func(r *millrace.Reader) { r.Read(buf) }},
		"ReadByte, UnreadByte": {0, func(r *millrace.Reader) { r.ReadByte(); r.UnreadByte(); r.ReadByte() }},
		"ReadRune, UnreadRune": {0, func(r *millrace.Reader) { r.ReadRune(); r.UnreadRune(); r.ReadRune() }},
		"Peek, Discard":        {0, func(r *millrace.Reader) { r.Peek(1000); r.Discard(1000) }},
		"Skip":                 {0, func(r *millrace.Reader) { r.Skip(20000) }},
		"ReadSlice":            {0, func(r *millrace.Reader) { r.ReadSlice('\n') }},
		"ReadLine":             {0, func(r *millrace.Reader) { r.ReadLine() }},
		"ReadBytes":            {1, func(r *millrace.Reader) { r.ReadBytes('\n') }},
		"ReadString":           {1, func(r *millrace.Reader) { r.ReadString('\n') }},
		"integers":             {0, func(r *millrace.Reader) { r.ReadBE(3); r.ReadLE(8); r.ReadUvarint(); r.ReadULEB128() }},
		"Reset":                {0, func(r *millrace.Reader) { r.ReadByte(); r.Reset(anEndless) }},
		"Release, Reset":       {0, func(r *millrace.Reader) { r.ReadByte(); r.Release(); r.Reset(anEndless) }},
	} {
		r := millrace.NewReader(newEndless())
		for range 2000 { // until the size of the block has settled
			test.call(r)
		}
		if n := testing.AllocsPerRun(2000, func() { test.call(r) }); n != test.allocs {
			t.Errorf("%s: %v allocations, want %v", name, n, test.allocs)
		}
		c.Release()
		r.Release()
	}
}

var anEndless = newEndless()

// Nor does waiting for a socket.
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
		lent := 0
		lend := func(p []byte) { lent += len(p) }
		for name, call := range map[string]func(){
			"ReadRange": func() { client.Write(request); r.ReadRange(1000, lend) },
			"ReadChain": func() { client.Write(request); r.ReadChain(&c, 1000); c.Release() },
			"a packet kept across the wait": func() {
				client.Write(request)
				var next millrace.Chain
				r.ReadChain(&next, 1000)
				c.Release()
				c.Merge(&next)
			},
		} {
			if n := testing.AllocsPerRun(500, call); n >= 1 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
		if lent != 501*1000 {
			t.Errorf("lent %d bytes", lent)
		}
		c.Release()
		client.Close()
	})
}

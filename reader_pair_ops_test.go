package millrace_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"

	"github.com/millrace-io/millrace"
)

// pairOps is all that a Reader can do. Fuzz inputs refer to the entries by index: add new ones at the end.
var pairOps = []struct {
	name string
	run  func(*pair)
}{
	{"Read", pairRead},
	{"Peek", pairPeek},
	{"Discard", pairDiscard},
	{"ReadByte", func(p *pair) {
		a, err := p.got.ReadByte()
		b, wantErr := p.want.ReadByte()
		p.same([]any{a, err}, []any{b, wantErr})
	}},
	{"UnreadByte", func(p *pair) {
		p.same([]any{p.got.UnreadByte()}, []any{p.want.UnreadByte()})
	}},
	{"ReadRune", func(p *pair) {
		r, size, err := p.got.ReadRune()
		wantR, wantSize, wantErr := p.want.ReadRune()
		p.same([]any{r, size, err}, []any{wantR, wantSize, wantErr})
	}},
	{"UnreadRune", pairUnreadRune},
	{"ReadSlice", func(p *pair) {
		delim := p.delim()
		a, err := p.got.ReadSlice(delim)
		b, wantErr := p.want.ReadSlice(delim)
		p.same([]any{a, err}, []any{b, wantErr})
		p.loose = len(a) == 0
	}},
	{"ReadLine", func(p *pair) {
		a, prefix, err := p.got.ReadLine()
		b, wantPrefix, wantErr := p.want.ReadLine()
		p.same([]any{a, a == nil, prefix, err}, []any{b, b == nil, wantPrefix, wantErr})
		p.loose = len(a) == 0
	}},
	{"ReadBytes", func(p *pair) {
		delim := p.delim()
		a, err := p.got.ReadBytes(delim)
		b, wantErr := p.want.ReadBytes(delim)
		p.same([]any{a, a == nil, err}, []any{b, b == nil, wantErr})
		p.loose = len(a) == 0
	}},
	{"ReadString", func(p *pair) {
		delim := p.delim()
		a, err := p.got.ReadString(delim)
		b, wantErr := p.want.ReadString(delim)
		p.same([]any{a, err}, []any{b, wantErr})
		p.loose = len(a) == 0
	}},
	{"WriteTo", pairWriteTo},
	{"ReadRange", pairReadRange},
	{"ReadChain", pairReadChain},
	{"Skip", pairSkip},
	{"integer", pairInteger},
	{"varint", pairVarint},
	{"Buffered", pairBuffered},
	{"Reset", pairReset},
	{"Chain.ReadFrom", func(p *pair) {
		if p.choose()%4 != 0 {
			p.pass() // it goes to the end: not too often
			return
		}
		var c millrace.Chain
		n, err := c.ReadFrom(p.got)
		want, wantErr := readToError(p.want)
		p.same([]any{n, err}, []any{int64(len(want)), wantErr})
		if !bytes.Equal(c.Bytes(), want) {
			p.failf("read %s, want %s", show(c.Bytes()), show(want))
		}
		p.keep(&c)
		p.level()
	}},
}

func (p *pair) delim() byte { return "\n\rae\x00\xe6"[int(p.choose())%6] }

func pairRead(p *pair) {
	b := make([]byte, p.number())
	n, err := p.got.Read(b)
	if n < 0 || n > len(b) {
		p.failf("Read returned %d", n)
	}
	if len(b) == 0 {
		_, wantErr := p.want.Read(nil)
		p.same([]any{n, err}, []any{0, wantErr})
		p.loose = true
		return
	}
	p.same([]any{b[:n]}, []any{p.next(n)})
	if err != nil {
		p.same([]any{err}, []any{p.nextError()})
	}
	if n == 0 {
		p.loose = true
		if err == nil && !p.gotP.kind.zeros {
			p.failf("Read returned nothing and no error")
		}
	}
}

func pairPeek(p *pair) {
	n := p.number()
	a, err := p.got.Peek(n)
	b, wantErr := p.want.Peek(n)
	if n > p.size && err == nil {
		// Allowed: more than size bytes were here already. They must be the next ones.
		if len(a) != n || !bytes.HasPrefix(a, b) || wantErr != bufio.ErrBufferFull {
			p.failf("Peek returned %s, want %s... and %v", show(a), show(b), wantErr)
		}
		return
	}
	p.same([]any{a, err}, []any{b, wantErr})
}

// discard is bufio's Discard, but for one thing: with nothing buffered bufio reads on past an error that is pending, and
// gives what comes behind the error first.
func (p *pair) discard(n int) (int, error) {
	if n == 0 {
		p.pass() // nobody forgets what could be unread
	}
	if n > 0 && p.want.Buffered() == 0 {
		if _, err := p.want.Read(nil); err != nil {
			p.want.Peek(0)
			return 0, err
		}
	}
	return p.want.Discard(n)
}

func pairDiscard(p *pair) {
	n := p.number()
	a, err := p.got.Discard(n)
	b, wantErr := p.discard(n)
	p.same([]any{a, err}, []any{b, wantErr})
}

func pairSkip(p *pair) {
	n := p.number()
	err := p.got.Skip(n)
	b, wantErr := p.discard(n)
	p.same([]any{err}, []any{midway(wantErr, b)})
}

func pairUnreadRune(p *pair) {
	err, wantErr := p.got.UnreadRune(), p.want.UnreadRune()
	if !p.loose {
		p.same([]any{err}, []any{wantErr})
		return
	}
	p.loose = false
	switch {
	case err == nil && wantErr != nil:
		p.got.ReadRune()
	case err != nil && wantErr == nil:
		p.want.ReadRune()
	}
	p.level()
}

// readToError is what WriteTo should write: all up to an error, of which io.EOF is none. (bufio's own WriteTo reads on
// past an error that came together with bytes.)
func readToError(r *bufio.Reader) ([]byte, error) {
	all, err := io.ReadAll(r)
	return all, err
}

var errFull = errors.New("writer is full")

// A cup is a writer that takes so much and no more.
type cup struct {
	bytes.Buffer
	room int
}

func (c *cup) Write(b []byte) (int, error) {
	n, _ := c.Buffer.Write(b[:min(len(b), c.room)])
	c.room -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// plainWriter hides all but Write.
type plainWriter struct{ io.Writer }

func pairWriteTo(p *pair) {
	switch p.choose() % 16 {
	case 0:
		w := new(bytes.Buffer) // a ReaderFrom
		n, err := p.got.WriteTo(w)
		want, wantErr := readToError(p.want)
		p.same([]any{w.Bytes(), n, err}, []any{want, int64(len(want)), wantErr})
	case 1, 2, 3, 4, 5:
		w := &cup{room: p.number()}
		n, err := p.got.WriteTo(plainWriter{w})
		if int(n) != w.Len() {
			p.failf("said that %d bytes were written; the writer has %d", n, w.Len())
		}
		p.same([]any{w.Bytes()}, []any{p.next(w.Len())})
		if err != errFull {
			wantErr := p.nextError()
			if wantErr == io.EOF {
				wantErr = nil
			}
			p.same([]any{err}, []any{wantErr})
		}
	}
	p.level()
}

func pairReadRange(p *pair) {
	n := p.number()
	var got []byte
	err := p.got.ReadRange(n, func(b []byte) {
		if len(b) == 0 {
			p.failf("yielded an empty slice")
		}
		got = append(got, b...)
	})
	want, wantErr := p.readFull(n)
	p.same([]any{got, err}, []any{want, wantErr})
	p.level()
}

func pairReadChain(p *pair) {
	n := p.number()
	var c millrace.Chain
	c.AppendCopy([]byte("old"))
	buffered := p.got.Buffered()
	if err := p.got.ReadChain(&c, n); err != nil {
		if c.Len() != 3 || p.got.Buffered() < buffered {
			p.failf("the chain has %d bytes, the buffer %d of %d after %v", c.Len(), p.got.Buffered(), buffered, err)
		}
		c.Release()
		p.stayed(p.got.Buffered(), err)
		return
	}
	c.Discard(3)
	if c.Len() != n {
		p.failf("read %d bytes", c.Len())
	}
	if b := c.Reader(); n > 0 {
		got := make([]byte, n)
		io.ReadFull(&b, got)
		p.same([]any{got}, []any{p.next(n)})
	}
	p.keep(&c)
	p.level()
}

func pairInteger(p *pair) {
	n := int(p.choose())%8 + 1
	b, wantErr := p.want.Peek(n)
	var little, big [8]byte
	copy(little[:], b)
	copy(big[8-min(n, len(b)):], b)
	read, want := p.got.ReadBE, binary.BigEndian.Uint64(big[:])
	if p.choose()%2 == 0 {
		read, want = p.got.ReadLE, binary.LittleEndian.Uint64(little[:])
	}
	v, err := read(n)
	if wantErr != nil {
		p.same([]any{v, err}, []any{uint64(0), midway(wantErr, len(b))})
		p.level()
		return
	}
	p.same([]any{v, err}, []any{want, nil})
	p.next(n)
}

func pairVarint(p *pair) {
	var b []byte
	var wantErr error
	want, size := uint64(0), 0
	for size == 0 && wantErr == nil {
		if b, wantErr = p.want.Peek(len(b) + 1); wantErr == nil {
			want, size = binary.Uvarint(b)
		}
		if size == 0 && len(b) == binary.MaxVarintLen64 {
			size = -1 // Uvarint wants to see one byte more before it says so; ReadUvarint does not
		}
	}
	var v uint64
	var err error
	gotSize := size
	if p.choose()%2 == 0 {
		v, gotSize, err = p.got.ReadULEB128()
	} else {
		v, err = p.got.ReadUvarint()
	}
	switch {
	case wantErr != nil:
		p.same([]any{v, err}, []any{uint64(0), midway(wantErr, len(b))})
		p.level()
	case size < 0: // an overflow stays unread
		if err == nil || v != 0 {
			p.failf("%d, %v for an overflow", v, err)
		}
		p.level()
	default:
		p.same([]any{v, gotSize, err}, []any{want, size, nil})
		p.next(size)
	}
}

// pairBuffered takes Buffered at its word.
func pairBuffered(p *pair) {
	n, calls := p.got.Buffered(), p.gotP.calls
	if n = min(n, p.size); p.choose()%2 == 0 {
		b, err := p.got.Peek(n)
		p.same([]any{len(b), err}, []any{n, nil})
		p.want.Peek(0)
	} else {
		m, err := p.got.Discard(n)
		p.same([]any{m, err}, []any{n, nil})
		p.next(n)
	}
	if p.gotP.calls != calls {
		p.failf("asked the source for what was buffered")
	}
	p.level()
}

func pairReset(p *pair) {
	if p.choose()%4 != 0 {
		p.pass()
		return
	}
	rng := rand.New(rand.NewPCG(uint64(p.choose()), uint64(p.choose())))
	t, k := randomTape(rng, 20000), kinds[rng.IntN(len(kinds))]
	p.gotP = newPlayer(t, k, 1)
	p.got.Reset(p.gotP.source())
	p.want.Reset(newPlayer(t, k, 2).source())
	if n := p.got.Buffered(); n != 0 {
		p.failf("%d bytes buffered after Reset", n)
	}
}

package millrace_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

var pairSizes = []int{16, 17, 64, 512, 4096, 65536}

// TestReaderAgainstBufio runs random programs on a Reader and on a bufio.Reader over the same
// source.
func TestReaderAgainstBufio(t *testing.T) {
	for _, size := range pairSizes {
		for i, k := range kinds {
			t.Run(fmt.Sprintf("%d/%s", size, k.name), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(size), uint64(i)))
				for range rounds(40) {
					s := setup{size: size, kind: k, tape: randomTape(rng, 1<<(5+rng.IntN(13)))}
					runPair(t, s, randomProgram(rng))
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// TestFedReaderAgainstBufio does the same with a Reader that is fed with pieces.
func TestFedReaderAgainstBufio(t *testing.T) {
	for i, k := range kinds {
		if k.wrap != nil {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for range rounds(150) {
				runPair(t, setup{feed: true, kind: k, tape: randomTape(rng, 1<<(5+rng.IntN(13)))},
					randomProgram(rng))
				if t.Failed() {
					return
				}
			}
		})
	}
}

// FuzzReader lets the fuzzer write the program and the tape.
func FuzzReader(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range kinds {
		f.Add(byte(i), byte(i), uint16(10*i), uint16(20*i), stuff(rng, 300),
			[]byte(randomProgram(rng)[:20]))
	}
	text := []byte("line\r\nline\n日本語\x80\x81\x02 and more to come")
	for i := range pairOps {
		op := byte(i)
		f.Add(17*op, op, uint16(50), uint16(100), text, []byte{op, 9, op, 3, 3, 4, op})
	}
	f.Fuzz(func(t *testing.T, size, kind byte, fault1, fault2 uint16, data, program []byte) {
		if len(data) > 1<<16 || len(program) > 1<<10 {
			return
		}
		s := setup{
			size: pairSizes[int(size&0x7f)%len(pairSizes)],
			feed: size&0x80 != 0,
			kind: kinds[int(kind)%len(kinds)],
		}
		if s.feed && s.kind.wrap != nil {
			s.kind = kinds[0]
		}
		s.tape.data = data
		for i, at := range []uint16{min(fault1, fault2), max(fault1, fault2)} {
			if int(at) <= len(data) {
				s.tape.faults = append(s.tape.faults,
					fault{int(at), faultErrors[(i+int(kind))%len(faultErrors)]})
			}
		}
		runPair(t, s, program)
	})
}

// A pair runs a millrace.Reader and a bufio.Reader over the same tape and compares all results. A
// program chooses the calls.
//
// The two readers may buffer different amounts. Therefore one Read may return different amounts,
// and docs/reader.md lists the other allowed differences. After such a difference, the oracle is
// brought to the same position.
type pair struct {
	t    testing.TB
	size int

	got  *millrace.Reader
	want *bufio.Reader
	gotP *player // source of got
	// The last call read nothing. Whether UnreadRune works depends on the amount that is buffered.
	loose bool
	was   bool // loose, before the current call
	over  bool // the two readers can no longer be brought to the same position

	program
	calls []string
	kept  []kept
}

func (p *pair) delim() byte { return "\n\rae\x00\xe6"[int(p.choose())%6] }

// discard is bufio's Discard with one difference: if its buffer is empty, bufio reads past a
// pending error, and returns the bytes after the error first.
func (p *pair) discard(n int) (int, error) {
	if n == 0 {
		p.pass() // both keep their unread state
	}
	if n > 0 && p.want.Buffered() == 0 {
		if _, err := p.want.Read(nil); err != nil {
			p.want.Peek(0)
			return 0, err
		}
	}
	return p.want.Discard(n)
}

func (p *pair) step() {
	op := pairOps[int(p.choose())%len(pairOps)]
	p.was = p.loose
	p.loose = p.loose && op.name == "UnreadRune"
	p.calls = append(p.calls, op.name)
	op.run(p)
	if n := p.got.Buffered(); n < 0 {
		p.failf("Buffered() = %d", n)
	}
}

// pass ends a call that does not change loose.
func (p *pair) pass() { p.loose = p.was }

// number chooses a length that is likely to be at a boundary.
func (p *pair) number() int {
	edges := [...]int{
		0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 64, 65, 100, 500, 511, 512, 513, 1000, 1024, 1500,
		4095, 4096, 4097, 5000, 10000, 65535, 65536, 70000, p.size - 1, p.size, p.size + 1,
		2 * p.size,
	}
	n := edges[int(p.choose())%len(edges)]
	p.calls[len(p.calls)-1] += fmt.Sprintf(" %d", n)
	return n
}

func (p *pair) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("call %d, %s: %s", len(p.calls), p.calls[len(p.calls)-1],
		fmt.Sprintf(format, args...))
}

// same compares the results of both. Results other than bytes are compared as text.
func (p *pair) same(got []any, want []any) {
	p.t.Helper()
	for i := range got {
		if !equal(got[i], want[i]) {
			p.failf("result %d is %s, want %s", i, show(got[i]), show(want[i]))
		}
	}
}

// next reads the next n bytes from the oracle, after got has reported them.
func (p *pair) next(n int) []byte {
	b, err := p.readFull(n)
	if err != nil {
		p.failf("%d bytes more than there are before %v", n-len(b), err)
	}
	return b
}

// readFull is io.ReadFull on the oracle, in reads that fit into its buffer. io.ReadFull drops an
// error that a direct read returns together with the last bytes.
func (p *pair) readFull(n int) ([]byte, error) {
	b := make([]byte, n)
	for at := 0; at < n; {
		m, err := p.want.Read(b[at:min(n, at+p.size-1)])
		if at += m; err != nil {
			return b[:at], midway(err, at)
		}
	}
	return b, nil
}

// nextError reads the next error from the oracle, after got has reported it.
func (p *pair) nextError() error {
	for {
		var b [1]byte
		if n, err := p.want.Read(b[:]); err != nil {
			return err
		} else if n > 0 {
			return fmt.Errorf("byte %#x", b[0])
		}
	}
}

// level clears the unread state of both.
func (p *pair) level() {
	p.got.Peek(0)
	p.want.Peek(0)
}

// stayed is called when got returned an error but kept the n bytes before it. It checks the error,
// and puts the oracle into the same state.
func (p *pair) stayed(n int, err error) {
	if p.gotP.kind.ahead {
		p.over = true
		return
	}
	if p.got.Buffered() != n {
		p.failf("%d bytes are buffered before the error, %d were consumed", p.got.Buffered(), n)
	}
	if want := midway(p.gotP.last, n); err != want {
		p.failf("%v at byte %d, want %v", err, p.gotP.at, want)
	}
	p.want = bufio.NewReaderSize(p.gotP.rewound(n).source(), p.size)
	p.level()
}

// keep stores a chain and sometimes releases an older one.
func (p *pair) keep(c *millrace.Chain) {
	k := kept{chain: *c, copy: make([]byte, c.Len())}
	if n := k.chain.CopyTo(k.copy); n != k.chain.Len() {
		p.failf("CopyTo copied %d of %d bytes", n, k.chain.Len())
	}
	p.kept = append(p.kept, k)
	for range int(p.choose()) % 3 {
		if len(p.kept) > 0 {
			i := int(p.choose()) % len(p.kept)
			p.letGo(&p.kept[i])
			p.kept = slices.Delete(p.kept, i, i+1)
		}
	}
}

// letGo checks that the bytes have not changed since they were read, and releases them.
func (p *pair) letGo(k *kept) {
	at := 0
	for piece := range k.chain.All() {
		if !bytes.Equal(piece, k.copy[at:at+len(piece)]) {
			p.t.Errorf("bytes that were kept have changed: %s, read as %s", show(piece),
				show(k.copy[at:at+len(piece)]))
		}
		at += len(piece)
	}
	if at != len(k.copy) {
		p.t.Errorf("kept %d bytes, found %d", len(k.copy), at)
	}
	k.chain.Release()
}

// kept is a Chain that is checked again much later.
type kept struct {
	chain millrace.Chain
	copy  []byte
}

// A setup describes the two readers and their tape.
type setup struct {
	size int
	feed bool // use NewReaderFrom
	kind kind
	tape tape
}

func (s setup) String() string {
	if s.feed {
		return fmt.Sprintf("fed, %s, %d bytes", s.kind.name, len(s.tape.data))
	}
	return fmt.Sprintf("size %d, %s, %d bytes", s.size, s.kind.name, len(s.tape.data))
}

// runPair runs a program to its end, or to the first difference.
func runPair(t testing.TB, s setup, program []byte) {
	t.Helper()
	pool := millrace.NewPool()
	outside := millrace.DefaultPool().Stats().InUse
	p := &pair{t: t, size: s.size, program: program}
	p.gotP = newPlayer(s.tape, s.kind, 1)
	if s.feed {
		p.size = 4096
		p.got = millrace.NewReaderFrom(p.gotP.feed)
	} else {
		p.got = pool.NewReader(p.gotP.source(), s.size)
	}
	p.want = bufio.NewReaderSize(newPlayer(s.tape, s.kind, 2).source(), p.size)
	defer func() {
		if e := recover(); e != nil || t.Failed() {
			last := p.calls[max(0, len(p.calls)-20):]
			t.Errorf("%v\nthe last calls: %s\npanic: %v", s, strings.Join(last, ", "), e)
		}
	}()
	for len(p.program) > 0 && !p.over && !t.Failed() {
		p.step()
	}
	p.got.Release()
	for i := range p.kept {
		p.letGo(&p.kept[i])
	}
	if n := pool.Stats().InUse; n != 0 && !t.Failed() {
		t.Errorf("%d bytes of the pool in use after everything was released\n%v", n, pool.Leaks())
	}
	if n := millrace.DefaultPool().Stats().InUse; n != outside && !t.Failed() {
		t.Errorf("%d bytes of the default pool in use after everything was released, want %d", n,
			outside)
	}
}

func equal(a, b any) bool {
	if a, ok := a.([]byte); ok {
		return bytes.Equal(a, b.([]byte))
	}
	return a == b
}

func show(v any) string {
	b, ok := v.([]byte)
	switch {
	case !ok:
		return fmt.Sprint(v)
	case len(b) > 100:
		return fmt.Sprintf("%d bytes %q...", len(b), b[:100])
	}
	return fmt.Sprintf("%d bytes %q", len(b), b)
}

// midway returns the error for a source that ended after n bytes of a longer value.
func midway(err error, n int) error {
	if err == io.EOF && n > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// pairOps are the possible calls. Fuzz inputs refer to the entries by index: add new ones at the
// end.
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
		if prefix && len(a) == p.size-1 {
			p.level() // see TestUnreadByteAfterCarriageReturn
		}
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
			p.pass() // reads to the end, so do it rarely
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
	{"ReadChainDelim", pairReadChainDelim},
	{"ReadRef", pairReadRef},
}

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
		// Allowed: more than size bytes were buffered already. They must be the next bytes.
		if len(a) != n || !bytes.HasPrefix(a, b) || wantErr != bufio.ErrBufferFull {
			p.failf("Peek returned %s, want %s... and %v", show(a), show(b), wantErr)
		}
		return
	}
	p.same([]any{a, err}, []any{b, wantErr})
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

// readToError returns the bytes that WriteTo should write: all bytes before an error other than
// io.EOF. (bufio's own WriteTo reads past an error that came together with bytes.)
func readToError(r *bufio.Reader) ([]byte, error) {
	all, err := io.ReadAll(r)
	return all, err
}

var errFull = errors.New("writer is full")

// A cup is a writer that accepts a limited number of bytes.
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

// plainWriter hides all methods except Write.
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
			p.failf("the chain has %d bytes, the buffer %d of %d after %v", c.Len(),
				p.got.Buffered(), buffered, err)
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
		io.ReadFull(b, got)
		p.same([]any{got}, []any{p.next(n)})
	}
	p.keep(&c)
	p.level()
}

func pairReadChainDelim(p *pair) {
	delim, limit := p.delim(), p.number()
	var c millrace.Chain
	c.AppendCopy([]byte("old"))
	buffered := p.got.Buffered()
	err := p.got.ReadChainDelim(&c, delim, limit)
	if err == nil {
		c.Discard(3)
		line := bytes.Clone(c.Bytes())
		if i := bytes.IndexByte(line, delim); i != len(line)-1 || len(line) > limit {
			p.failf("read %s, want a line that ends with %q and has at most %d bytes", show(line),
				delim, limit)
		}
		p.same([]any{line}, []any{p.next(len(line))})
		p.keep(&c)
		p.level()
		return
	}
	if c.Len() != 3 || p.got.Buffered() < buffered {
		p.failf("the chain has %d bytes, the buffer %d of %d after %v", c.Len(), p.got.Buffered(),
			buffered, err)
	}
	c.Release()
	long, ok := errors.AsType[*millrace.DelimError](err)
	if !ok {
		p.stayed(p.got.Buffered(), err)
		return
	}
	if long.Delim != delim || long.Limit != limit {
		p.failf("%v, want the limit %d", err, limit)
	}
	var kept millrace.Chain
	if err := p.got.ReadChain(&kept, limit); err != nil ||
		bytes.IndexByte(kept.Bytes(), delim) >= 0 {
		p.failf("%s, %v come next, want %d bytes without %q", show(kept.Bytes()), err, limit, delim)
	}
	p.same([]any{bytes.Clone(kept.Bytes())}, []any{p.next(limit)})
	p.keep(&kept)
	p.level()
}

func pairReadRef(p *pair) {
	n := p.number()
	r, err := p.got.ReadRef(n)
	switch {
	case n > p.size:
		p.same([]any{err}, []any{bufio.ErrBufferFull})
	case err != nil:
		p.stayed(p.got.Buffered(), err)
		return
	default:
		p.same([]any{bytes.Clone(r.Bytes())}, []any{p.next(n)})
		var c millrace.Chain
		c.Append(&r)
		p.keep(&c)
	}
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
			size = -1 // Uvarint needs one more byte to detect this; ReadUvarint does not
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
	case size < 0: // an overflow is not consumed
		if err == nil || v != 0 {
			p.failf("%d, %v for an overflow", v, err)
		}
		p.level()
	default:
		p.same([]any{v, gotSize, err}, []any{want, size, nil})
		p.next(size)
	}
}

// pairBuffered checks that Buffered bytes can be read without the source.
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

// A tape is the contents of a source: bytes, and errors between them. The place of an error depends
// only on the bytes before it. Two readers that ask for different amounts therefore see the same
// stream. After the end the tape returns io.EOF repeatedly.
type tape struct {
	data   []byte
	faults []fault // sorted by at
}

type fault struct {
	at  int
	err error
}

var faultErrors = []error{
	errors.New("first fault"),
	errors.New("second fault"),
	io.EOF, // as in a growing file: the reader may continue after io.EOF
	iotest.ErrTimeout,
}

// A player returns the contents of a tape as one of several kinds of source.
type player struct {
	tape
	kind  kind
	rng   *rand.Rand
	at    int // bytes returned
	next  int // faults returned
	calls int
	bare  int   // the error at this byte is returned alone, even with attach
	last  error // the last error returned
	zero  bool  // the last call returned nothing
}

// source returns the source for the reader under test.
func (p *player) source() io.Reader {
	if p.kind.wrap != nil {
		return p.kind.wrap(p)
	}
	return p
}

// rewound returns a player that returns the last n bytes again, but not the error after them.
func (p *player) rewound(n int) *player {
	q := newPlayer(p.tape, p.kind, uint64(p.at))
	q.at, q.next, q.bare = p.at-n, p.next, p.at
	return q
}

// end returns the position of the next error.
func (p *player) end() int {
	if p.next < len(p.faults) {
		return p.faults[p.next].at
	}
	return len(p.data)
}

func (p *player) fault() error {
	p.last = io.EOF
	if p.next < len(p.faults) {
		p.last = p.faults[p.next].err
		p.next++
	}
	return p.last
}

// size chooses how many bytes to return, at most room.
func (p *player) size(room int) int {
	n := min(room, p.end()-p.at)
	if p.kind.most > 0 && n > 0 {
		n = 1 + p.rng.IntN(min(n, p.kind.most))
	}
	return n
}

func (p *player) Read(b []byte) (int, error) {
	p.calls++
	if p.zero = p.kind.zeros && !p.zero && p.rng.IntN(3) == 0; p.zero {
		return 0, nil
	}
	if p.at == p.end() {
		return 0, p.fault()
	}
	n := copy(b[:p.size(len(b))], p.data[p.at:])
	p.at += n
	if p.kind.attach && p.at == p.end() && p.at != p.bare {
		return n, p.fault()
	}
	return n, nil
}

// feed is the player as a function for NewReaderFrom: it adds a few pieces at a time, made in
// different ways.
func (p *player) feed(dst *millrace.Chain) error {
	if p.calls++; dst.Len() > 0 {
		return errors.New("fed before what there was has been read")
	}
	if p.zero = p.kind.zeros && !p.zero && p.rng.IntN(3) == 0; p.zero {
		return nil
	}
	if p.at == p.end() {
		return p.fault()
	}
	for range 1 + p.rng.IntN(4) {
		if p.at == p.end() {
			break
		}
		n := p.size(1 + p.rng.IntN(5000))
		addPiece(dst, p.data[p.at:p.at+n], p.rng.IntN(3))
		p.at += n
	}
	if p.kind.attach && p.at == p.end() && p.at != p.bare {
		return p.fault()
	}
	return nil
}

// A kind determines how a player divides its tape.
type kind struct {
	name   string
	most   int  // bytes at a time; 0 means as many as requested
	zeros  bool // sometimes 0 bytes and no error
	attach bool // an error is returned together with the bytes before it
	wrap   func(io.Reader) io.Reader
	ahead  bool // wrap reads ahead, so the player does not know how many bytes were consumed
}

var kinds = []kind{
	{name: "whole"},
	{name: "whole, errors with data", attach: true},
	{name: "packets", most: 1500},
	{name: "packets, errors with data", most: 1500, attach: true},
	{name: "trickle with empty reads", most: 20, zeros: true},
	{name: "trickle with empty reads, errors with data", most: 20, zeros: true, attach: true},
	{name: "OneByteReader", wrap: iotest.OneByteReader},
	{name: "HalfReader", wrap: iotest.HalfReader},
	{name: "DataErrReader", wrap: iotest.DataErrReader, ahead: true},
	{name: "wrapped connection", wrap: func(r io.Reader) io.Reader { return wrappedConn{r} }},
}

// A wrappedConn is a source like a *tls.Conn: a Reader waits for it with a read of one byte.
type wrappedConn struct{ io.Reader }

func (wrappedConn) NetConn() net.Conn { return nil }

func newPlayer(t tape, k kind, seed uint64) *player {
	return &player{tape: t, kind: k, rng: rand.New(rand.NewPCG(seed, 1)), bare: -1}
}

// addPiece adds b to c in one of three ways.
func addPiece(c *millrace.Chain, b []byte, how int) {
	switch how {
	case 0:
		c.AppendCopy(b)
	case 1:
		d := millrace.DefaultPool().Get(len(b))
		r := d.Freeze(copy(d.Bytes(), b))
		c.Append(&r)
	default: // a part of a larger block that had another owner
		d := millrace.DefaultPool().Get(len(b) + 7)
		copy(d.Bytes(), "before!")
		r := d.Freeze(7 + copy(d.Bytes()[7:], b))
		s := r.Slice(7, 7+len(b))
		r.Release()
		c.Append(&s)
	}
}

// stuff returns n bytes that contain everything that the methods of a Reader look for: lines of any
// length with either ending, characters of all sizes, invalid characters, and varints.
func stuff(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+64)
	for len(b) < n {
		switch rng.IntN(8) {
		case 0:
			b = append(b, '\n')
		case 1:
			b = append(b, "\r\n"...)
		case 2:
			b = append(b, '\r')
		case 3:
			b = append(b, "日本語 é 🙂"[rng.IntN(6):]...)
		case 4:
			for range rng.IntN(12) {
				b = append(b, 0x80|byte(rng.Uint32()))
			}
		case 5:
			for range rng.IntN(1 << rng.IntN(14)) {
				b = append(b, byte(rng.Uint32())|1) // never a newline
			}
		default:
			for range rng.IntN(40) {
				b = append(b, 'a'+byte(rng.IntN(26)))
			}
		}
	}
	return b[:n]
}

func randomTape(rng *rand.Rand, most int) tape {
	t := tape{data: stuff(rng, rng.IntN(most))}
	at := 0
	for range rng.IntN(6) {
		at += rng.IntN(len(t.data) - at + 1)
		t.faults = append(t.faults, fault{at, faultErrors[rng.IntN(len(faultErrors))]})
	}
	return t
}

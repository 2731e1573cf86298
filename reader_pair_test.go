package millrace_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
)

// A pair runs a millrace.Reader and a bufio.Reader over the same tape side by side and compares all that they say.
// A program, any string of bytes, decides what is called; so the random tests and the fuzzer share it.
//
// Two readers that buffer different amounts may differ in how much one Read gives, and in nothing else, but for what
// docs/reader.md lists. The oracle is brought back into step where that happens.
type pair struct {
	t    testing.TB
	size int

	got   *millrace.Reader
	want  *bufio.Reader
	gotP  *player // what got reads
	loose bool    // the last call read nothing: whether UnreadRune works still depends on how much is buffered
	was   bool    // loose, before the call under way
	over  bool    // the two cannot be brought back into step

	program []byte
	calls   []string
	kept    []kept
}

// kept is a Chain that was read and is looked at again much later.
type kept struct {
	chain millrace.Chain
	copy  []byte
}

// A setup is how a pair begins.
type setup struct {
	size  int
	feed  bool // by NewReaderFrom
	quick bool // as if the source had always come back at once
	kind  kind
	tape  tape
}

func (s setup) String() string {
	if s.feed {
		return fmt.Sprintf("fed, %s, %d bytes", s.kind.name, len(s.tape.data))
	}
	return fmt.Sprintf("size %d, %s, quick %v, %d bytes", s.size, s.kind.name, s.quick, len(s.tape.data))
}

// runPair runs a program to its end, or to the first difference.
func runPair(t testing.TB, s setup, program []byte) {
	t.Helper()
	pool := millrace.NewPool()
	outside := millrace.DefaultPool.Stats().InUse
	p := &pair{t: t, size: s.size, program: program}
	p.gotP = newPlayer(s.tape, s.kind, 1)
	if s.feed {
		p.size = 4096
		p.got = millrace.NewReaderFrom(p.gotP.feed)
	} else {
		p.got = pool.NewReader(p.gotP.source(), s.size)
		if s.quick {
			millrace.Quicken(p.got)
		}
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
	if n := millrace.DefaultPool.Stats().InUse; n != outside && !t.Failed() {
		t.Errorf("%d bytes of the default pool in use after everything was released, want %d", n, outside)
	}
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

// pass is for a call that is not made this time: what is loose stays so.
func (p *pair) pass() { p.loose = p.was }

// choose returns the next byte of the program, and 0 behind its end.
func (p *pair) choose() byte {
	if len(p.program) == 0 {
		return 0
	}
	b := p.program[0]
	p.program = p.program[1:]
	return b
}

// number chooses a length that is likely to be on some edge.
func (p *pair) number() int {
	edges := [...]int{
		0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 64, 65, 100, 500, 511, 512, 513, 1000, 1024, 1500,
		4095, 4096, 4097, 5000, 10000, 65535, 65536, 70000, p.size - 1, p.size, p.size + 1, 2 * p.size,
	}
	n := edges[int(p.choose())%len(edges)]
	p.calls[len(p.calls)-1] += fmt.Sprintf(" %d", n)
	return n
}

func (p *pair) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("call %d, %s: %s", len(p.calls), p.calls[len(p.calls)-1], fmt.Sprintf(format, args...))
}

// same compares what both returned, printed if they are not bytes.
func (p *pair) same(got []any, want []any) {
	p.t.Helper()
	for i := range got {
		if !equal(got[i], want[i]) {
			p.failf("result %d is %s, want %s", i, show(got[i]), show(want[i]))
		}
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

// next reads the n bytes from the oracle that got said come next.
func (p *pair) next(n int) []byte {
	b, err := p.readFull(n)
	if err != nil {
		p.failf("%d bytes more than there are before %v", n-len(b), err)
	}
	return b
}

// readFull is io.ReadFull on the oracle, in reads that are too small to go past its buffer: io.ReadFull drops an error
// that a direct read gives together with the last of the bytes.
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

// midway is what the end of the source is called after n bytes of something longer.
func midway(err error, n int) error {
	if err == io.EOF && n > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// nextError reads the error from the oracle that got said comes next.
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

// level makes both forget what could be unread.
func (p *pair) level() {
	p.got.Peek(0)
	p.want.Peek(0)
}

// stayed tells the oracle that got returned an error, which it checks, and kept the n bytes before it.
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

// keep remembers a chain and sometimes lets an older one go.
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

// letGo checks that the bytes have not changed since they were read.
func (p *pair) letGo(k *kept) {
	at := 0
	for piece := range k.chain.All() {
		if !bytes.Equal(piece, k.copy[at:at+len(piece)]) {
			p.t.Errorf("bytes that were kept have changed: %s, read as %s", show(piece), show(k.copy[at:at+len(piece)]))
		}
		at += len(piece)
	}
	if at != len(k.copy) {
		p.t.Errorf("kept %d bytes, found %d", len(k.copy), at)
	}
	k.chain.Release()
}

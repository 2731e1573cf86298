package stackbuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// buffer has the methods of bytes.Buffer.
type buffer interface {
	io.ReadWriter
	io.ByteScanner
	io.ByteWriter
	io.RuneScanner
	io.StringWriter
	io.ReaderFrom
	io.WriterTo
	fmt.Stringer
	Available() int
	AvailableBuffer() []byte
	Bytes() []byte
	Cap() int
	Grow(n int)
	Len() int
	Next(n int) []byte
	Peek(n int) ([]byte, error)
	ReadBytes(delim byte) ([]byte, error)
	ReadString(delim byte) (string, error)
	Reset()
	Truncate(n int)
	WriteRune(r rune) (int, error)
}

// A rig has a few Buffers, which are copied to each other, and for each a bytes.Buffer that gets
// the same calls. A program, any string of bytes, chooses the calls. The random test and the fuzz
// test share it. After each call all Buffers are compared, because a call on one must not change
// another.
type rig struct {
	t       testing.TB
	slots   [3]slot
	groups  int
	program []byte
	told    []string // the calls so far
}

// A slot is one Buffer and its oracle.
type slot struct {
	b stackbuf.Buffer
	o *bytes.Buffer

	// origin repeats the history of o. Copies of a bytes.Buffer share memory, but those of a small
	// Buffer do not. Therefore the oracle of a copy is a new bytes.Buffer with the same history.
	origin func() *bytes.Buffer
	calls  []func(b buffer)

	group int // not 0: the Buffers of a group share memory, and only one of them may be written to
	// Since the last read, Unread* may have nothing left to take back, depending on the capacity.
	moved bool
}

func (s *slot) start(b stackbuf.Buffer, origin func() *bytes.Buffer) {
	*s = slot{b: b, o: origin(), origin: origin}
}

func (s *slot) empty() {
	s.start(stackbuf.Buffer{}, func() *bytes.Buffer { return new(bytes.Buffer) })
}

// offset returns the length of b's memory before the contents.
func offset(b buffer) int { return b.Cap() - b.Available() - b.Len() }

// outcome calls f and returns its result or panic, in words that are the same for both types.
func outcome(f func() string) (result string) {
	defer func() {
		if e := recover(); e != nil {
			result = "panic: " + fmt.Sprint(e)
			if _, ok := e.(runtime.Error); ok {
				result = "panic: a runtime error" // the values in the message may differ
			}
		}
		result = strings.ReplaceAll(result, "stackbuf.Buffer", "bytes.Buffer")
	}()
	return f()
}

// do makes a call on a Buffer and on its oracle, and compares the results.
func (r *rig) do(i int, call func(b buffer) string) {
	r.t.Helper()
	s := &r.slots[i]
	got := outcome(func() string { return call(&s.b) })
	want := outcome(func() string { return call(s.o) })
	s.calls = append(s.calls, func(b buffer) { outcome(func() string { return call(b) }) })
	if got != want {
		r.t.Errorf("slot %d gives %s, want %s", i, got, want)
	}
}

// copy makes slot j a copy of slot i.
func (r *rig) copy(i, j int) {
	from, to := &r.slots[i], &r.slots[j]
	if i == j {
		return
	}
	if stackbuf.Spilled(&from.b) && from.group == 0 {
		r.groups++
		from.group = r.groups
	}
	b, calls := from.b, from.calls[:len(from.calls):len(from.calls)]
	to.start(b, from.origin)
	for _, call := range calls {
		call(to.o)
	}
	to.calls, to.group, to.moved = calls, from.group, from.moved
}

// claim chooses slot i as the one of its group that may be written to.
func (r *rig) claim(i int) {
	for j := range r.slots {
		if j != i && r.slots[i].group != 0 && r.slots[j].group == r.slots[i].group {
			r.slots[j].empty()
		}
	}
	r.slots[i].group = 0
}

// shrink has no counterpart in bytes.Buffer. If the memory has changed, the oracle starts again
// with the contents.
func (r *rig) shrink(i int) {
	s := &r.slots[i]
	spilled, p := stackbuf.Spilled(&s.b), s.b.Bytes()
	s.b.Shrink()
	if q := s.b.Bytes(); stackbuf.Spilled(&s.b) == spilled && (len(q) == 0 || &p[0] == &q[0]) {
		return
	}
	contents := bytes.Clone(s.o.Bytes())
	s.start(s.b, func() *bytes.Buffer { return bytes.NewBuffer(bytes.Clone(contents)) })
}

// unread is UnreadByte or UnreadRune. If the contents have moved, the bytes before them are lost.
// Whether they have moved depends on the capacity, which may differ. In that case both are made
// equal again.
func (r *rig) unread(i int, call func(b buffer) error) {
	s := &r.slots[i]
	before, oracleBefore := s.b.Len(), s.o.Len()
	moved := s.moved
	r.do(i, func(b buffer) string { return fmt.Sprint(call(b)) })
	if !moved || s.b.Len()-before == s.o.Len()-oracleBefore || s.b.Len() != before &&
		s.o.Len() != oracleBefore {
		return
	}
	s.b.Next(s.b.Len() - before)
	catchUp := func(b buffer) { b.Next(b.Len() - before) }
	catchUp(s.o)
	s.calls = append(s.calls, catchUp)
	r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(nil)) })
}

// look compares every Buffer with its oracle.
func (r *rig) look() {
	r.t.Helper()
	for i := range r.slots {
		s := &r.slots[i]
		b, want := &s.b, s.o.Bytes()
		if err := stackbuf.Broken(b); err != nil {
			r.t.Errorf("slot %d: %v", i, err)
		}
		if b.Len() != len(want) || !bytes.Equal(b.Bytes(), want) || b.String() != string(want) {
			r.t.Errorf("slot %d has %d bytes: %q\nwant %d: %q", i, b.Len(), b.Bytes(), len(want),
				want)
		}
		free := b.AvailableBuffer()
		if len(free) != 0 || cap(free) != b.Available() ||
			cap(b.Bytes()) != b.Len()+b.Available() || offset(b) < 0 {
			r.t.Errorf("slot %d: of %d bytes, %d have content and %d are free; AvailableBuffer has %d and room for %d",
				i, b.Cap(), b.Len(), b.Available(), len(free), cap(free))
		}
		if len(want) > most {
			r.do(i, func(b buffer) string { b.Next(most); return "" })
		}
	}
}

// most limits the contents, so that a program ends soon.
const most = 1 << 13

// runRig runs a program to its end, or to the first difference.
func runRig(t testing.TB, program []byte) {
	t.Helper()
	r := &rig{t: t, program: program}
	for i := range r.slots {
		r.slots[i].empty()
	}
	defer func() {
		if e := recover(); e != nil || t.Failed() {
			t.Errorf("the calls: %s\npanic: %v",
				strings.Join(r.told[max(0, len(r.told)-30):], "; "), e)
		}
	}()
	for len(r.program) > 0 && !t.Failed() {
		op := rigOps[int(r.choose())%len(rigOps)]
		i := int(r.choose()) % len(r.slots)
		r.told = append(r.told, op.name)
		r.note(i)
		if op.effect&writes != 0 {
			r.claim(i)
		}
		op.do(r, i)
		if op.effect&keeps == 0 {
			r.slots[i].moved = op.effect&moves != 0
		}
		r.look()
	}
}

// choose returns the next byte of the program, or 0 after its end.
func (r *rig) choose() byte {
	if len(r.program) == 0 {
		return 0
	}
	b := r.program[0]
	r.program = r.program[1:]
	return b
}

// upTo chooses a number from 0 to n, both ends more often than others.
func (r *rig) upTo(n int) int {
	switch b := int(r.choose()); {
	case b < 16:
		n = 0
	case b < 48:
	case b < 112:
		n = min(b-48, n)
	default:
		n = (b<<8 | int(r.choose())) % (n + 1)
	}
	r.note(n)
	return n
}

// bytes chooses a slice, usually so short that it may fit into the array.
func (r *rig) bytes() []byte {
	n := r.upTo(40)
	if n == 40 {
		n = r.upTo(3000)
	}
	start := int(r.choose()) % 63
	return []byte(text(start + n)[start:])
}

func (r *rig) note(args ...any) {
	r.told[len(r.told)-1] += " " + strings.Trim(fmt.Sprint(args...), "[]")
}

func randomProgram(rng *rand.Rand) []byte {
	program := make([]byte, 50+rng.IntN(400))
	for i := range program {
		program[i] = byte(rng.Uint32())
	}
	return program
}

func TestBufferAgainstBytesBuffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(64, 112))
	for range rounds(2000) {
		if runRig(t, randomProgram(rng)); t.Failed() {
			return
		}
	}
}

// An effect describes an operation beyond its results in bytes.Buffer.
type effect int

const (
	writes effect = 1 << iota // writes to memory that copies may share
	moves                     // may move the contents away from the bytes that Unread* takes back
	keeps                     // does not change what Unread* takes back
)

// rigOps are the possible operations on slot i. Fuzz inputs refer to the entries by index: add new
// ones at the end.
var rigOps = []struct {
	name   string
	effect effect
	do     func(r *rig, i int)
}{
	{"Write", writes, func(r *rig, i int) {
		p := r.bytes()
		r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(p)) })
	}},
	{"WriteString", writes, func(r *rig, i int) {
		s := string(r.bytes())
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteString(s)) })
	}},
	{"WriteByte", writes, func(r *rig, i int) {
		c := r.choose()
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteByte(c)) })
	}},
	{"Printf", writes, func(r *rig, i int) {
		p := r.bytes()
		r.do(i, func(b buffer) string {
			held := b.Bytes()[:min(b.Len(), 8)]
			if ours, ok := b.(*stackbuf.Buffer); ok {
				ours.Printf("<%s:%s>", held, p)
			} else {
				fmt.Fprintf(b, "<%s:%s>", bytes.Clone(held), p)
			}
			return ""
		})
	}},
	{"WriteRune", writes, func(r *rig, i int) {
		c := rigRunes[int(r.choose())%len(rigRunes)]
		r.note(c)
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteRune(c)) })
	}},
	{"Read", 0, func(r *rig, i int) {
		p := make([]byte, r.upTo(100))
		r.do(i, func(b buffer) string {
			n, err := b.Read(p)
			return fmt.Sprintf("%d %v %q", n, err, p[:n])
		})
	}},
	{"ReadByte", 0, func(r *rig, i int) {
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadByte()) })
	}},
	{"ReadRune", 0, func(r *rig, i int) {
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadRune()) })
	}},
	{"UnreadByte", keeps, func(r *rig, i int) { r.unread(i, buffer.UnreadByte) }},
	{"UnreadRune", keeps, func(r *rig, i int) { r.unread(i, buffer.UnreadRune) }},
	{"ReadBytes", 0, func(r *rig, i int) {
		delim := r.choose()
		r.do(i, func(b buffer) string {
			line, err := b.ReadBytes(delim)
			return fmt.Sprintf("%q %t %v", line, line == nil, err)
		})
	}},
	{"ReadString", 0, func(r *rig, i int) {
		delim := r.choose()
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadString(delim)) })
	}},
	{"Next", 0, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len()+2) - 1
		r.do(i, func(b buffer) string { return fmt.Sprintf("%q", b.Next(n)) })
	}},
	{"Peek", keeps, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len()+2) - 1
		r.do(i, func(b buffer) string {
			p, err := b.Peek(n)
			return fmt.Sprintf("%q %v", p, err)
		})
	}},
	{"Truncate", 0, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len()+2) - 1
		r.do(i, func(b buffer) string { b.Truncate(n); return "" })
	}},
	{"Reset", 0, func(r *rig, i int) {
		r.do(i, func(b buffer) string { b.Reset(); return "" })
	}},
	{"Grow", writes | moves, func(r *rig, i int) {
		n := r.upTo(200) - 1
		if n == 199 && !narrow {
			n = []int{math.MaxInt, math.MaxInt - 1, math.MaxInt - 64, math.MaxInt / 2, 3000,
				1000}[r.choose()%6]
			r.note(n)
		}
		r.do(i, func(b buffer) string {
			b.Grow(n)
			return fmt.Sprint(b.Available() >= n)
		})
	}},
	{"ReadFrom", writes, rigReadFrom},
	{"WriteTo", 0, rigWriteTo},
	{"append to AvailableBuffer and Write", writes, func(r *rig, i int) {
		p := r.bytes()
		r.do(i, func(b buffer) string {
			return fmt.Sprint(b.Write(append(strconv.AppendInt(b.AvailableBuffer(), int64(len(p)),
				10), p...)))
		})
	}},
	{"change what Bytes returns", writes | keeps, func(r *rig, i int) {
		c := r.choose()
		r.do(i, func(b buffer) string {
			p := b.Bytes()
			for j := range p {
				p[j] ^= c
			}
			_ = append(p, c) // after the contents
			return ""
		})
	}},
	{"Write a part of Bytes", writes, func(r *rig, i int) {
		to := r.upTo(r.slots[i].o.Len())
		from := r.upTo(to)
		r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(b.Bytes()[from:to])) })
	}},
	{"Write what Next returns", writes, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len())
		r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(b.Next(n))) })
	}},
	{"ReadFrom a part of Bytes", writes, func(r *rig, i int) {
		to := r.upTo(r.slots[i].o.Len())
		from := r.upTo(to)
		r.do(i, func(b buffer) string {
			return fmt.Sprint(b.ReadFrom(bytes.NewReader(b.Bytes()[from:to])))
		})
	}},
	{"WriteTo itself", writes, func(r *rig, i int) {
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteTo(b)) })
	}},
	{"Shrink", moves, func(r *rig, i int) { r.shrink(i) }},
	{"copy to", keeps, func(r *rig, i int) {
		j := int(r.choose()) % len(r.slots)
		r.note(j)
		r.copy(i, j)
	}},
	{"NewBuffer", 0, func(r *rig, i int) {
		p, room := r.bytes(), r.upTo(100)
		fresh := func() []byte { return append(make([]byte, 0, len(p)+room), p...) }
		r.slots[i].start(*stackbuf.NewBuffer(fresh()),
			func() *bytes.Buffer { return bytes.NewBuffer(fresh()) })
	}},
	{"NewBufferString", 0, func(r *rig, i int) {
		s := string(r.bytes())
		r.slots[i].start(*stackbuf.NewBufferString(s),
			func() *bytes.Buffer { return bytes.NewBufferString(s) })
	}},
}

// rigRunes have encodings of every length, or are invalid.
var rigRunes = []rune{
	0, 'a', 0x7f, 0x80, 'é', 0x7ff, 0x800, '€', 0xd7ff, 0xd800, 0xffff, '𝄞', 0x10ffff, 0x110000, -1,
	math.MinInt32,
}

func rigReadFrom(r *rig, i int) {
	s, src := string(r.bytes()), sources[int(r.choose())%len(sources)]
	claim := r.upTo(4000) - 1
	r.note(src.name)
	r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadFrom(src.of(s, claim))) })
}

func rigWriteTo(r *rig, i int) {
	w := taker{most: r.upTo(r.slots[i].o.Len() + 1)}
	switch r.choose() % 4 {
	case 0:
		w.err = errBroken
	case 1:
		w.extra = 1
	case 2:
		w.panics = true
	}
	r.note(w.err, w.extra, w.panics)
	r.do(i, func(b buffer) string {
		to := w
		result := outcome(func() string { return fmt.Sprint(b.WriteTo(&to)) })
		return fmt.Sprintf("%s %q", result, to.got)
	})
}

var errBroken = errors.New("broken")

// FuzzBuffer lets the fuzzer write the program. The seeds contain each call after each other call.
func FuzzBuffer(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 12))
	for first := range rigOps {
		var program []byte
		for second := range rigOps {
			for _, op := range []int{first, second} {
				program = append(program, byte(op), byte(rng.Uint32()), byte(rng.Uint32()),
					byte(rng.Uint32()))
			}
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1<<10 {
			return
		}
		runRig(t, program)
	})
}

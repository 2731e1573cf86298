package stackbuf_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// buffer is what bytes.Buffer has.
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

// A rig has a few Buffers, which are copied to each other, and beside each a bytes.Buffer that gets the same calls. A
// program, any string of bytes, decides which; so the random test and the fuzzer share it. After each call all of them
// are compared, because what must not happen is that a call on one changes another.
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

	// What made o what it is. Copies of a bytes.Buffer share memory; those of a small Buffer do not. So the oracle of a copy
	// is a new bytes.Buffer that the same was done to.
	origin func() *bytes.Buffer
	calls  []func(b buffer)

	group int  // not 0: the Buffers of a group share memory, and only one of them may be written to
	moved bool // since the last read: Unread* may find that there is nothing left to take back, or not
}

func (s *slot) start(b stackbuf.Buffer, origin func() *bytes.Buffer) {
	*s = slot{b: b, o: origin(), origin: origin}
}

func (s *slot) empty() { s.start(stackbuf.Buffer{}, func() *bytes.Buffer { return new(bytes.Buffer) }) }

// offset is how much of b's memory lies in front of the contents.
func offset(b buffer) int { return b.Cap() - b.Available() - b.Len() }

// outcome calls f and returns what it returned or panicked with, in words that are the same for both types.
func outcome(f func() string) (result string) {
	defer func() {
		if e := recover(); e != nil {
			result = "panic: " + fmt.Sprint(e)
			if _, ok := e.(runtime.Error); ok {
				result = "panic: a runtime error" // how far something is out of range may differ
			}
		}
		result = strings.ReplaceAll(result, "stackbuf.Buffer", "bytes.Buffer")
	}()
	return f()
}

// do makes a call on a Buffer and on its oracle, and compares what comes of it.
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

// claim makes slot i the one of its group that is written to.
func (r *rig) claim(i int) {
	for j := range r.slots {
		if j != i && r.slots[i].group != 0 && r.slots[j].group == r.slots[i].group {
			r.slots[j].empty()
		}
	}
	r.slots[i].group = 0
}

// shrink has no counterpart in bytes.Buffer: the oracle starts again with its contents if the memory is another.
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

// unread is UnreadByte or UnreadRune. When the contents have moved, what was in front of them is gone; whether they have
// is a matter of capacity, in which the two differ. Then they are made equal again.
func (r *rig) unread(i int, call func(b buffer) error) {
	s := &r.slots[i]
	before, oracleBefore := s.b.Len(), s.o.Len()
	moved := s.moved
	r.do(i, func(b buffer) string { return fmt.Sprint(call(b)) })
	if !moved || s.b.Len()-before == s.o.Len()-oracleBefore || s.b.Len() != before && s.o.Len() != oracleBefore {
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
			r.t.Errorf("slot %d has %d bytes: %q\nwant %d: %q", i, b.Len(), b.Bytes(), len(want), want)
		}
		free := b.AvailableBuffer()
		if len(free) != 0 || cap(free) != b.Available() || cap(b.Bytes()) != b.Len()+b.Available() || offset(b) < 0 {
			r.t.Errorf("slot %d: of %d bytes, %d have content and %d are free; AvailableBuffer has %d and room for %d",
				i, b.Cap(), b.Len(), b.Available(), len(free), cap(free))
		}
		if len(want) > most {
			r.do(i, func(b buffer) string { b.Next(most); return "" })
		}
	}
}

// most bounds the contents, so that a program does not take for ever.
const most = 1 << 13

// runRig runs a program to its end, or to the first mistake.
func runRig(t testing.TB, program []byte) {
	t.Helper()
	r := &rig{t: t, program: program}
	for i := range r.slots {
		r.slots[i].empty()
	}
	defer func() {
		if e := recover(); e != nil || t.Failed() {
			t.Errorf("the calls: %s\npanic: %v", strings.Join(r.told[max(0, len(r.told)-30):], "; "), e)
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

// choose returns the next byte of the program, and 0 behind its end.
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

// bytes chooses some, most often so few that they may fit into the array.
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

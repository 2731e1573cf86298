package stackbuf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// check has everything that shows the contents agree.
func check(t testing.TB, what string, b *stackbuf.Buffer, want string) {
	t.Helper()
	if got := string(b.Bytes()); got != want {
		t.Errorf("%s: Bytes is %q, want %q", what, got, want)
	}
	if got := b.String(); got != want {
		t.Errorf("%s: String is %q, want %q", what, got, want)
	}
	if b.Len() != len(want) {
		t.Errorf("%s: Len is %d, want %d", what, b.Len(), len(want))
	}
	if p, err := b.Peek(len(want)); string(p) != want || err != nil {
		t.Errorf("%s: Peek gives %q, %v, want %q", what, p, err, want)
	}
	if got := cap(b.AvailableBuffer()); got != b.Available() || b.Cap() < b.Len()+b.Available() {
		t.Errorf("%s: %d of %d bytes are available, and room for %d", what, b.Available(), b.Cap(), got)
	}
	if err := stackbuf.Broken(b); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// sizes lie around what fits into the array, and around what a large memory is.
var sizes = []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 511, 512, 513, 4095, 4096, 4097, 70_000}

// filled returns Buffers with the same contents, which came there in different ways.
func filled(s string) map[string]*stackbuf.Buffer {
	var written, bytewise, grown, behind, received stackbuf.Buffer
	copied := *stackbuf.NewBufferString(s)
	written.WriteString(s)
	for i := range len(s) {
		bytewise.WriteByte(s[i])
	}
	grown.Grow(100 + len(s))
	grown.WriteString(s)
	behind.WriteString(text(40))
	behind.Next(39)
	behind.WriteString(s)
	behind.ReadByte()
	behind.Write(nil) // the last call was no read
	received.ReadFrom(only{strings.NewReader(s)})
	return map[string]*stackbuf.Buffer{
		"NewBuffer":        stackbuf.NewBuffer([]byte(s)),
		"NewBuffer, room":  stackbuf.NewBuffer(append(make([]byte, 0, len(s)+10), s...)),
		"NewBufferString":  stackbuf.NewBufferString(s),
		"WriteString":      &written,
		"WriteByte":        &bytewise,
		"Grow":             &grown,
		"behind what read": &behind,
		"ReadFrom":         &received,
		"a copy":           &copied,
	}
}

func TestFilledBuffersHoldTheSame(t *testing.T) {
	for _, n := range sizes {
		for what, b := range filled(text(n)) {
			check(t, fmt.Sprint(what, ", ", n), b, text(n))
		}
	}
}

func TestZeroBuffer(t *testing.T) {
	var b stackbuf.Buffer
	check(t, "zero", &b, "")
	if b.Cap() != 64 || b.Available() != 64 {
		t.Errorf("the zero Buffer has %d bytes, %d free, want 64", b.Cap(), b.Available())
	}
	b.WriteString(text(64))
	check(t, "full", &b, text(64))
	if stackbuf.Spilled(&b) || b.Cap() != 64 || b.Available() != 0 {
		t.Errorf("with 64 bytes it has %d bytes, %d free", b.Cap(), b.Available())
	}
	b.WriteByte('x')
	check(t, "spilled", &b, text(64)+"x")
	if !stackbuf.Spilled(&b) {
		t.Error("65 bytes are in the value")
	}
}

func TestNilBuffer(t *testing.T) {
	var b *stackbuf.Buffer
	if got := b.String(); got != "<nil>" {
		t.Errorf("String of a nil *Buffer is %q", got)
	}
	if got := fmt.Sprint(b); got != "<nil>" {
		t.Errorf("a nil *Buffer prints as %q", got)
	}
}

func TestNewBufferTakesTheSlice(t *testing.T) {
	for _, n := range sizes {
		p := make([]byte, n/2, n)
		copy(p, text(n))
		b := stackbuf.NewBuffer(p)
		check(t, "before", b, text(n)[:n/2])
		if n > 0 && (b.Cap() != n || b.Available() != n-n/2) {
			t.Errorf("of %d bytes %d are available, want %d of %d", b.Cap(), b.Available(), n-n/2, n)
		}
		b.WriteString(text(n)[n/2:])
		check(t, "after", b, text(n))
		if got := string(p[:n]); got != text(n) {
			t.Errorf("the slice holds %q, want what was written", got)
		}
		b.WriteString("more")
		check(t, "and more", b, text(n)+"more")
	}
}

// Neither nil nor a slice without room makes a Buffer that has less than the zero value has.
func TestNewBufferOfNothing(t *testing.T) {
	for what, b := range map[string]*stackbuf.Buffer{
		"nil":    stackbuf.NewBuffer(nil),
		"empty":  stackbuf.NewBuffer([]byte{}),
		"little": stackbuf.NewBuffer(make([]byte, 0, 10)),
	} {
		check(t, what, b, "")
		b.WriteString(text(64))
		check(t, what, b, text(64))
		if stackbuf.Spilled(b) {
			t.Errorf("%s: 64 bytes are not in the value", what)
		}
	}
}

func TestNewBufferStringCopies(t *testing.T) {
	for _, n := range sizes {
		b := stackbuf.NewBufferString(text(n))
		if got := stackbuf.Spilled(b); got != (n > 64) {
			t.Errorf("%d bytes are on the heap: %t", n, got)
		}
		check(t, fmt.Sprint(n), b, text(n))
		b.WriteByte('x')
		check(t, fmt.Sprint(n, " and one"), b, text(n)+"x")
	}
}

// What is appended to the contents or to AvailableBuffer reaches no further than the memory that is free.
func TestBytesAndAvailableBufferEndWithTheMemory(t *testing.T) {
	for _, n := range sizes {
		for what, b := range filled(text(n)) {
			if got := cap(b.Bytes()); got != b.Len()+b.Available() {
				t.Errorf("%s, %d: Bytes has room for %d, want %d", what, n, got, b.Len()+b.Available())
			}
			_ = append(b.Bytes(), make([]byte, b.Available())...)
			check(t, what, b, text(n))
			room := b.Available()
			b.Write(append(b.AvailableBuffer(), text(room)...))
			check(t, what, b, text(n)+text(room))
			if b.Available() != 0 {
				t.Errorf("%s, %d: %d bytes are available, want 0", what, n, b.Available())
			}
			b.Write(append(b.AvailableBuffer(), 'x'))
			check(t, what, b, text(n)+text(room)+"x")
		}
	}
}

func TestChangingBytesChangesTheBuffer(t *testing.T) {
	for _, n := range sizes[1:] {
		for what, b := range filled(text(n)) {
			b.Bytes()[n-1] = '!'
			check(t, what, b, text(n)[:n-1]+"!")
			p, _ := b.Peek(1)
			p[0] = '?'
			if c, err := b.ReadByte(); c != '?' || err != nil {
				t.Errorf("%s, %d: the first byte is %q, %v", what, n, c, err)
			}
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, n := range sizes {
		for what, b := range filled(text(n)) {
			size := b.Cap()
			for _, left := range []int{n, n - n/3, n / 2, n / 3, 0} {
				b.Truncate(left)
				check(t, what, b, text(n)[:left])
				if b.Cap() != size {
					t.Errorf("%s: Truncate(%d) of %d changed Cap from %d to %d", what, left, n, size, b.Cap())
				}
			}
			if b.Available() != size {
				t.Errorf("%s: %d of %d bytes are available after Truncate(0)", what, b.Available(), size)
			}
			b.WriteString("again")
			check(t, what, b, "again")
		}
	}
}

func TestTruncateForgetsWhatWasRead(t *testing.T) {
	b := stackbuf.NewBufferString("abcdef")
	b.ReadByte()
	b.Truncate(3)
	check(t, "truncated", b, "bcd")
	if err := b.UnreadByte(); err == nil {
		t.Error("UnreadByte after Truncate succeeds")
	}
}

func TestReset(t *testing.T) {
	for _, n := range sizes {
		for what, b := range filled(text(n)) {
			size := b.Cap()
			b.ReadByte()
			b.Reset()
			check(t, what, b, "")
			if b.Cap() != size || b.Available() != size {
				t.Errorf("%s, %d: Reset left %d of %d bytes, want all of %d", what, n, b.Available(), b.Cap(), size)
			}
			if err := b.UnreadByte(); err == nil {
				t.Errorf("%s, %d: UnreadByte after Reset succeeds", what, n)
			}
			b.WriteString(text(n))
			check(t, what, b, text(n))
		}
	}
}

// An empty Buffer gives no nil slice, which bytes.Buffer's zero value does. Where that shows, it does in this way.
func TestBytesOfAnEmptyBufferAreNotNil(t *testing.T) {
	var ours stackbuf.Buffer
	var theirs bytes.Buffer
	a, _ := json.Marshal(ours.Bytes())
	b, _ := json.Marshal(theirs.Bytes())
	if string(a) != `""` || string(b) != `null` {
		t.Errorf("JSON of the zero Buffer's Bytes is %s, of bytes.Buffer's %s", a, b)
	}
}

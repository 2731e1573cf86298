package stackbuf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// changes are calls that change a Buffer, and what they make of "contents".
var changes = map[string]struct {
	call func(b *stackbuf.Buffer)
	want string
}{
	"Write":          {func(b *stackbuf.Buffer) { b.Write([]byte("123")) }, "contents123"},
	"WriteString":    {func(b *stackbuf.Buffer) { b.WriteString("123") }, "contents123"},
	"WriteByte":      {func(b *stackbuf.Buffer) { b.WriteByte('1') }, "contents1"},
	"WriteRune":      {func(b *stackbuf.Buffer) { b.WriteRune('é') }, "contentsé"},
	"spill":          {func(b *stackbuf.Buffer) { b.WriteString(text(100)) }, "contents" + text(100)},
	"Grow":           {func(b *stackbuf.Buffer) { b.Grow(1000) }, "contents"},
	"Read":           {func(b *stackbuf.Buffer) { b.Read(make([]byte, 3)) }, "tents"},
	"Next":           {func(b *stackbuf.Buffer) { b.Next(3) }, "tents"},
	"ReadString":     {func(b *stackbuf.Buffer) { b.ReadString('t') }, "ents"},
	"Truncate":       {func(b *stackbuf.Buffer) { b.Truncate(3) }, "con"},
	"Reset":          {func(b *stackbuf.Buffer) { b.Reset() }, ""},
	"Shrink":         {func(b *stackbuf.Buffer) { b.Shrink() }, "contents"},
	"ReadFrom":       {func(b *stackbuf.Buffer) { b.ReadFrom(strings.NewReader("123")) }, "contents123"},
	"WriteTo":        {func(b *stackbuf.Buffer) { b.WriteTo(&taker{most: 3}) }, "tents"},
	"through Bytes":  {func(b *stackbuf.Buffer) { b.Bytes()[0] = 'C' }, "Contents"},
	"through append": {func(b *stackbuf.Buffer) { _ = append(b.Bytes(), '1') }, "contents"},
	"all is new":     {func(b *stackbuf.Buffer) { b.Reset(); b.WriteString("other") }, "other"},
}

// As long as both are small, neither sees what is done to the other, in whatever order.
func TestSmallCopiesAreIndependent(t *testing.T) {
	for first, a := range changes {
		for second, c := range changes {
			what := first + " and " + second
			original := *stackbuf.NewBufferString("contents")
			copied := original
			a.call(&original)
			check(t, what+", the copy before", &copied, "contents")
			c.call(&copied)
			check(t, what+", the original", &original, a.want)
			check(t, what+", the copy", &copied, c.want)
			again := copied
			check(t, what+", a copy of it", &again, c.want)
		}
	}
}

// Slices show the Buffer that they came from.
func TestSlicesBelongToOneOfTheCopies(t *testing.T) {
	var original stackbuf.Buffer
	original.WriteString("contents")
	p := original.Bytes()
	copied := original
	copied.Bytes()[0] = 'C'
	if string(p) != "contents" {
		t.Errorf("the original's slice shows %q", p)
	}
	p[0] = 'K'
	check(t, "original", &original, "Kontents")
	check(t, "copy", &copied, "Contents")
}

func TestCopiesRememberWhatWasRead(t *testing.T) {
	for _, n := range []int{10, 100} {
		b := stackbuf.NewBufferString(text(n))
		b.ReadRune()
		copied := *b
		if err := copied.UnreadRune(); err != nil {
			t.Errorf("UnreadRune of the copy: %v", err)
		}
		check(t, "copy", &copied, text(n))
		check(t, "original", b, text(n)[1:])
		if err := b.UnreadByte(); err != nil {
			t.Errorf("UnreadByte of the original: %v", err)
		}
	}
}

// Copies stand in arrays, maps and structs like any value.
func TestCopiesAreValues(t *testing.T) {
	values := make(map[int]stackbuf.Buffer)
	var list []stackbuf.Buffer
	var b stackbuf.Buffer
	for i := range 60 {
		b.WriteByte('x')
		values[i] = b
		list = append(list, b) // and so moves those that are there
	}
	for i := range 60 {
		b := values[i]
		check(t, fmt.Sprint("map ", i), &b, strings.Repeat("x", i+1))
		check(t, fmt.Sprint("slice ", i), &list[i], strings.Repeat("x", i+1))
		list[i].WriteByte('y')
	}
	for i := range 60 {
		check(t, fmt.Sprint("slice ", i), &list[i], strings.Repeat("x", i+1)+"y")
	}
}

// After a spill each may still be read, and what one reads, drops or resets the other still has.
func TestCopiesAfterASpillMayBothBeRead(t *testing.T) {
	for how, read := range readers {
		b := stackbuf.NewBufferString(text(200))
		copied := *b
		if got := read(&copied, 7); got != text(200) {
			t.Errorf("%s of the copy gives %q", how, got)
		}
		check(t, how, b, text(200))
	}
	b := stackbuf.NewBufferString(text(200))
	copied := *b
	copied.Truncate(10)
	check(t, "Truncate", b, text(200))
	copied.Reset()
	check(t, "Reset", b, text(200))
	copied = *b
	copied.WriteTo(&taker{most: 100})
	check(t, "WriteTo", b, text(200))
}

// Which of the two is written to is up to the user.
func TestOneOfTheCopiesAfterASpillMayBeWrittenTo(t *testing.T) {
	for _, n := range sizes[7:] {
		for what, b := range filled(text(n)) {
			if !stackbuf.Spilled(b) {
				continue
			}
			copied := *b
			for i := range 100 {
				copied.WriteByte(byte(i))
			}
			if got := copied.String(); got[:n] != text(n) || len(got) != n+100 || got[n+99] != 99 {
				t.Errorf("%s, %d: the copy that was written to has %q", what, n, got)
			}
		}
	}
}

// A copy that Shrink has taken into the value, or to other memory, is a Buffer of its own.
func TestShrinkSeparatesCopies(t *testing.T) {
	for _, left := range []int{0, 1, 64, 65, 500} {
		b := stackbuf.NewBufferString(text(1000))
		b.Truncate(left)
		copied := *b
		copied.Shrink()
		b.WriteString("original")
		copied.WriteString("copied")
		for i := range b.Bytes()[:left] {
			b.Bytes()[i] = '!'
		}
		check(t, fmt.Sprint("original, ", left), b, strings.Repeat("!", left)+"original")
		check(t, fmt.Sprint("copy, ", left), &copied, text(left)+"copied")
	}
}

// The spill of one leaves the other small.
func TestOneCopySpills(t *testing.T) {
	original := *stackbuf.NewBufferString(text(60))
	copied := original
	copied.WriteString(text(60))
	check(t, "copy", &copied, text(60)+text(60))
	check(t, "original", &original, text(60))
	if stackbuf.Spilled(&original) || !stackbuf.Spilled(&copied) {
		t.Error("the wrong one is on the heap")
	}
	original.WriteString("more")
	check(t, "copy", &copied, text(60)+text(60))
	check(t, "original", &original, text(60)+"more")
}

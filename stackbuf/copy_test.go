package stackbuf_test

import (
	"fmt"
	"runtime"
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

// As long as both are small, neither sees what is done to the other, in any order.
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

func TestShrink(t *testing.T) {
	for _, n := range sizes {
		for _, left := range []int{0, 1, 63, 64, 65, 100, n / 3, n / 2, n} {
			if left > n {
				continue
			}
			for what, b := range filled(text(n)) {
				b.Next(n - left)
				before := b.Cap()
				b.Shrink()
				what = fmt.Sprint(what, ", ", left, " of ", n)
				check(t, what, b, text(n)[n-left:])
				if left <= 64 && (stackbuf.Spilled(b) || b.Cap() != 64) {
					t.Errorf("%s: they are on the heap", what)
				}
				if most := max(fitting(left), left+64); b.Cap() > most || before > 64 && b.Cap() > before {
					t.Errorf("%s: Shrink left %d of %d bytes, want at most %d", what, b.Cap(), before, most)
				}
				b.WriteString(text(200))
				check(t, what, b, text(n)[n-left:]+text(200))
			}
		}
	}
}

// What is tight already stays where it is.
func TestShrinkOfWhatFits(t *testing.T) {
	for _, n := range []int{1, 64, 70, 100, 600, 1100, 8192} {
		b := stackbuf.NewBufferString(text(n))
		b.Shrink()
		first := &b.Bytes()[0]
		b.ReadByte()
		b.Shrink()
		b.UnreadByte()
		if &b.Bytes()[0] != first {
			t.Errorf("%d bytes in memory of %d were copied to memory of the same size", n, b.Cap())
		}
	}
}

// What b has returned before is no longer b's, and keeps what it shows.
func TestShrinkLeavesSlicesAlone(t *testing.T) {
	for _, left := range []int{10, 64, 65, 300} {
		b := stackbuf.NewBufferString(text(1000))
		b.Truncate(left)
		p := b.Bytes()
		b.Shrink()
		b.Bytes()[0] = '!'
		if string(p) != text(left) {
			t.Errorf("the slice shows %q", p)
		}
		clear(p)
		check(t, fmt.Sprint(left), b, "!"+text(left)[1:])
	}
}

// The memory that Shrink lets go is free as soon as no slice of it is left.
func TestShrinkFreesMemory(t *testing.T) {
	var b stackbuf.Buffer
	freed := make(chan bool)
	func() {
		p := new([1 << 20]byte)
		runtime.AddCleanup(p, func(freed chan bool) { close(freed) }, freed)
		b = *stackbuf.NewBuffer(p[:])
	}()
	b.Reset()
	runtime.GC()
	select {
	case <-freed:
		t.Fatal("Reset gave the memory back")
	default:
	}
	b.Shrink()
	for i := 0; ; i++ {
		runtime.GC()
		select {
		case <-freed:
			check(t, "empty", &b, "")
			return
		default:
		}
		if i == 1000 {
			t.Fatal("Shrink kept the memory")
		}
	}
}

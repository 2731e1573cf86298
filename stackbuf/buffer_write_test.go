package stackbuf_test

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-io/millrace/stackbuf"
)

// writers put s into a Buffer in pieces of n bytes.
var writers = map[string]func(b *stackbuf.Buffer, s string, n int){
	"Write": func(b *stackbuf.Buffer, s string, n int) {
		for ; len(s) > 0; s = s[min(n, len(s)):] {
			b.Write([]byte(s[:min(n, len(s))]))
		}
	},
	"WriteString": func(b *stackbuf.Buffer, s string, n int) {
		for ; len(s) > 0; s = s[min(n, len(s)):] {
			b.WriteString(s[:min(n, len(s))])
		}
	},
	"WriteByte": func(b *stackbuf.Buffer, s string, _ int) {
		for i := range len(s) {
			b.WriteByte(s[i])
		}
	},
	"WriteRune": func(b *stackbuf.Buffer, s string, _ int) {
		for _, c := range s {
			b.WriteRune(c)
		}
	},
	"AvailableBuffer": func(b *stackbuf.Buffer, s string, n int) {
		for ; len(s) > 0; s = s[min(n, len(s)):] {
			b.Write(append(b.AvailableBuffer(), s[:min(n, len(s))]...))
		}
	},
	"Fprint": func(b *stackbuf.Buffer, s string, n int) {
		for ; len(s) > 0; s = s[min(n, len(s)):] {
			fmt.Fprint(b, s[:min(n, len(s))])
		}
	},
}

func TestWritingInPieces(t *testing.T) {
	for what, write := range writers {
		for _, n := range sizes {
			for _, piece := range []int{1, 3, 40, 64, 65, 5000} {
				if n > 5000 && piece < 40 {
					continue
				}
				var b stackbuf.Buffer
				write(&b, text(n), piece)
				check(t, fmt.Sprint(what, " ", n, " by ", piece), &b, text(n))
				if stackbuf.Spilled(&b) != (n > 64) {
					t.Errorf("%s: %d bytes by %d are on the heap: %t", what, n, piece, stackbuf.Spilled(&b))
				}
			}
		}
	}
}

// What is read in between makes room: as long as no more than 64 bytes are held at once, the array does.
func TestTheArrayIsUsedAgain(t *testing.T) {
	for what, write := range writers {
		var b stackbuf.Buffer
		var want bytes.Buffer
		for i := range 500 {
			n := i * 7 % 33
			write(&b, text(n), 1000)
			want.WriteString(text(n))
			check(t, what, &b, want.String())
			take := max(0, want.Len()-i*5%32)
			if got := b.Next(take); !bytes.Equal(got, want.Next(take)) {
				t.Fatalf("%s: in round %d Next gives %q", what, i, got)
			}
			if stackbuf.Spilled(&b) {
				t.Fatalf("%s: in round %d the contents are on the heap", what, i)
			}
		}
	}
}

func TestWriteResults(t *testing.T) {
	for _, n := range sizes {
		var b stackbuf.Buffer
		if m, err := b.Write([]byte(text(n))); m != n || err != nil {
			t.Errorf("Write of %d bytes = %d, %v", n, m, err)
		}
		if m, err := b.WriteString(text(n)); m != n || err != nil {
			t.Errorf("WriteString of %d bytes = %d, %v", n, m, err)
		}
		check(t, "twice", &b, text(n)+text(n))
	}
}

func TestWriteBorrows(t *testing.T) {
	for _, n := range sizes {
		var b stackbuf.Buffer
		p := []byte(text(n))
		b.Write(p)
		clear(p)
		check(t, "written", &b, text(n))
	}
}

func TestWriteRune(t *testing.T) {
	for _, r := range rigRunes {
		want := utf8.AppendRune(nil, r)
		for held := range 70 {
			b := stackbuf.NewBufferString(text(held))
			if n, err := b.WriteRune(r); n != len(want) || err != nil {
				t.Errorf("WriteRune(%#x) = %d, %v, want %d", r, n, err, len(want))
			}
			check(t, fmt.Sprintf("%#x behind %d", r, held), b, text(held)+string(want))
		}
	}
}

// A rune needs the room that it takes, not the room that the longest takes.
func TestRunesFillTheRoomThatThereIs(t *testing.T) {
	for _, r := range []rune{'a', 'é', '€', '𝄞'} {
		size := utf8.RuneLen(r)
		var b stackbuf.Buffer
		b.WriteString(text(64 - size))
		b.WriteRune(r)
		check(t, string(r), &b, text(64-size)+string(r))
		if stackbuf.Spilled(&b) {
			t.Errorf("64 bytes that end with %q are on the heap", r)
		}
		for _, room := range []int{64, 100, 1000} {
			over := stackbuf.NewBuffer(append(make([]byte, 0, room), text(room-size)...))
			before := over.Available()
			over.WriteRune(r)
			check(t, string(r), over, text(room-size)+string(r))
			if over.Cap() != room {
				t.Errorf("with %d of %d bytes free, %q was written to other memory of %d bytes", before, room, r, over.Cap())
			}
		}
	}
}

func TestGrow(t *testing.T) {
	for _, held := range sizes {
		for _, n := range append([]int{3, 10, 200}, sizes...) {
			for what, b := range filled(text(held)) {
				b.Grow(n)
				check(t, fmt.Sprint(what, " ", held, " and room for ", n), b, text(held))
				size, room := b.Cap(), b.Available()
				if room < n {
					t.Errorf("%s: Grow(%d) with %d bytes left room for %d", what, n, held, room)
				}
				b.WriteString(text(n))
				check(t, what, b, text(held)+text(n))
				if b.Cap() != size {
					t.Errorf("%s: after Grow(%d) with %d bytes, writing them changed Cap from %d to %d", what, n, held, size, b.Cap())
				}
			}
		}
	}
}

// The memory doubles at least, so that writing n bytes copies no more than a few times n.
func TestMemoryDoubles(t *testing.T) {
	var b stackbuf.Buffer
	moves := 0
	for size := b.Cap(); b.Len() < 1<<20; size = b.Cap() {
		b.WriteString("0123456789")
		if b.Cap() == size {
			continue
		}
		moves++
		if b.Cap() < 2*size || b.Cap() > 5*size/2 {
			t.Errorf("with %d bytes the memory grew from %d to %d, want about twice as much", b.Len(), size, b.Cap())
		}
	}
	if moves > 15 {
		t.Errorf("the memory grew %d times", moves)
	}
}

// A queue whose length stays the same needs no more memory than at the start, whatever goes through it.
func TestAQueueDoesNotGrow(t *testing.T) {
	for _, held := range []int{0, 1, 30, 63, 96, 1000} {
		for _, n := range []int{1, 50, 97, 600} {
			var b stackbuf.Buffer
			b.WriteString(text(held))
			for range 10_000 {
				b.WriteString(text(n))
				b.Next(n)
			}
			if most := 4*(held+n) + 64; b.Cap() > most {
				t.Errorf("a queue of %d bytes, written by %d, has %d bytes of memory, want at most %d", held, n, b.Cap(), most)
			}
		}
	}
}

// Large memory is not given up for small contents, before Shrink is called.
func TestLargeMemoryIsKept(t *testing.T) {
	for _, held := range []int{0, 1, 20} {
		var b stackbuf.Buffer
		b.Grow(1000)
		size := b.Cap()
		b.WriteString(text(held))
		for i := range 1000 {
			b.WriteString(text(40))
			b.Next(40)
			if b.Cap() != size {
				t.Fatalf("after %d writes to a queue of %d bytes, the memory has %d bytes, it had %d", i, held, b.Cap(), size)
			}
		}
	}
}

// When each use needs a little more than the one before, most find that there is room.
func TestEachUseALittleLarger(t *testing.T) {
	for what, write := range writers {
		var b stackbuf.Buffer
		moves := 0
		for n := range 4000 {
			size := b.Cap()
			b.Reset()
			if write(&b, text(n), 1<<20); b.Cap() != size {
				moves++
			}
		}
		if moves > 8 {
			t.Errorf("%s: the memory grew %d times", what, moves)
		}
	}
}

// A first write of more than 64 bytes gets the memory that it needs, and not the double.
func TestAFirstLargeWriteFits(t *testing.T) {
	for _, n := range []int{65, 100, 1000, 4097, 100_000} {
		for what, write := range map[string]func(b *stackbuf.Buffer){
			"Write":       func(b *stackbuf.Buffer) { b.Write(make([]byte, n)) },
			"WriteString": func(b *stackbuf.Buffer) { b.WriteString(text(n)) },
			"Grow":        func(b *stackbuf.Buffer) { b.Grow(n) },
		} {
			var b stackbuf.Buffer
			if write(&b); b.Cap() > fitting(n) {
				t.Errorf("%s of %d bytes took memory of %d, want at most %d", what, n, b.Cap(), fitting(n))
			}
		}
	}
}

// fitting is how much memory an allocator's size class may have for n bytes.
func fitting(n int) int { return cap(append([]byte(nil), make([]byte, n)...)) }

func TestAvailableBufferIsAppendedTo(t *testing.T) {
	var b stackbuf.Buffer
	var want []byte
	for i := range 100 {
		n := int64(math.MaxInt64 >> (i % 64))
		b.Write(strconv.AppendInt(b.AvailableBuffer(), n, 10))
		b.Write(append(b.AvailableBuffer(), ' '))
		want = append(strconv.AppendInt(want, n, 10), ' ')
		check(t, "numbers", &b, string(want))
	}
}

// A Buffer's own contents may be written to it, and those that were just read: bytes.Buffer can do that, too.
func TestWritingItsOwnBytes(t *testing.T) {
	for held := range 66 {
		for read := range held + 1 {
			for n := range held - read + 1 {
				b, o := stackbuf.NewBufferString(text(held)), bytes.NewBufferString(text(held))
				b.Next(read)
				o.Next(read)
				twice, rest := *b, text(held)[read:]
				twice.Write(twice.Bytes()[:n])
				check(t, fmt.Sprint("part ", n, " of ", held, " from ", read), &twice, rest+rest[:n])
				b.Write(b.Next(n))
				o.Write(o.Next(n))
				check(t, fmt.Sprint("rotated by ", n, " of ", held, " from ", read), b, o.String())
				if t.Failed() {
					return
				}
			}
		}
	}
}

// Fprintf and others see an io.Writer.
func TestBufferAsWriter(t *testing.T) {
	var b stackbuf.Buffer
	for i := range 50 {
		fmt.Fprintf(&b, "%d,", i)
	}
	if got := strings.Count(b.String(), ","); got != 50 {
		t.Errorf("%d numbers in %q", got, b.String())
	}
}

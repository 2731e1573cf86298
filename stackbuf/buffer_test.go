package stackbuf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-io/millrace/stackbuf"
)

// check checks that all methods that return the contents agree.
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
		t.Errorf("%s: %d of %d bytes are available, and room for %d", what, b.Available(), b.Cap(),
			got)
	}
	if err := stackbuf.Broken(b); err != nil {
		t.Errorf("%s: the buffer is broken: %v", what, err)
	}
}

// sizes are around the size of the array, and around the limit of a large memory.
var sizes = []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 511, 512, 513, 4095, 4096,
	4097, 70_000}

// filled returns Buffers with the same contents, written in different ways.
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
	behind.Write(nil) // the last call was not a read
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
			t.Errorf("of %d bytes %d are available, want %d of %d", b.Cap(), b.Available(), n-n/2,
				n)
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

// NewBuffer with nil or with a slice without capacity returns a Buffer with at least the room of
// the zero value.
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

// An empty Buffer returns slices that are not nil, unlike bytes.Buffer's zero value. This test
// lists the visible differences.
func TestBytesOfAnEmptyBufferAreNotNil(t *testing.T) {
	var ours stackbuf.Buffer
	var theirs bytes.Buffer
	a, _ := json.Marshal(ours.Bytes())
	b, _ := json.Marshal(theirs.Bytes())
	if string(a) != `""` || string(b) != `null` {
		t.Errorf("JSON of the zero Buffer's Bytes is %s, of bytes.Buffer's %s", a, b)
	}
}

// signatures maps the exported methods of t, a pointer type, to their signatures without the
// receiver.
func signatures(t reflect.Type) map[string]string {
	of := map[string]string{}
	for m := range t.Methods() {
		in := make([]reflect.Type, 0, m.Type.NumIn()-1)
		for i := 1; i < m.Type.NumIn(); i++ {
			in = append(in, m.Type.In(i))
		}
		out := make([]reflect.Type, 0, m.Type.NumOut())
		for result := range m.Type.Outs() {
			out = append(out, result)
		}
		of[m.Name] = fmt.Sprint(reflect.FuncOf(in, out, m.Type.IsVariadic()))
	}
	return of
}

// Buffer has every method of bytes.Buffer, including those of later Go versions, with the same
// signature. Printf and Shrink are the only additional methods.
func TestBufferHasEveryMethod(t *testing.T) {
	want := signatures(reflect.TypeFor[*bytes.Buffer]())
	got := signatures(reflect.TypeFor[*stackbuf.Buffer]())
	if len(want) < 20 {
		t.Fatalf("bytes.Buffer has only %d methods: %v", len(want), want)
	}
	for name, signature := range want {
		if got[name] != signature {
			t.Errorf("%s is %q, want %q", name, got[name], signature)
		}
		delete(got, name)
	}
	added := map[string]string{"Printf": "func(string, ...interface {})", "Shrink": "func()"}
	if !maps.Equal(got, added) {
		t.Errorf("the methods that bytes.Buffer has not are %v, want %v", got, added)
	}
}

// Therefore no method works on an accidental copy.
func TestAllMethodsHavePointerReceivers(t *testing.T) {
	if n := reflect.TypeFor[stackbuf.Buffer]().NumMethod(); n != 0 {
		t.Errorf("a Buffer value has %d methods, want none", n)
	}
}

func TestFunctionsAndConstants(t *testing.T) {
	for name, pair := range map[string][2]any{
		"NewBuffer":       {bytes.NewBuffer, stackbuf.NewBuffer},
		"NewBufferString": {bytes.NewBufferString, stackbuf.NewBufferString},
	} {
		theirs, ours := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		want := reflect.FuncOf([]reflect.Type{theirs.In(0)},
			[]reflect.Type{reflect.TypeFor[*stackbuf.Buffer]()}, false)
		if ours != want {
			t.Errorf("%s is a %v, want %v", name, ours, want)
		}
	}
	if stackbuf.MinRead != bytes.MinRead {
		t.Errorf("MinRead is %d, want %d", stackbuf.MinRead, bytes.MinRead)
	}
	if stackbuf.ErrTooLarge != bytes.ErrTooLarge {
		t.Errorf("ErrTooLarge is %v, want that of bytes", stackbuf.ErrTooLarge)
	}
}

// 112 bytes are a size class, so a Buffer on the heap wastes nothing.
func TestSizeOfBuffer(t *testing.T) {
	want := uintptr(112)
	if strconv.IntSize == 32 {
		want = 3*4 + 2*4 + 1 + 64 + 3
	}
	if size := reflect.TypeFor[stackbuf.Buffer]().Size(); size != want {
		t.Errorf("a Buffer has %d bytes, want %d", size, want)
	}
}

// writers put s into a Buffer.
var writers = map[string]func(b *stackbuf.Buffer, s string){
	"Write":       func(b *stackbuf.Buffer, s string) { b.Write([]byte(s)) },
	"WriteString": func(b *stackbuf.Buffer, s string) { b.WriteString(s) },
	"AvailableBuffer": func(b *stackbuf.Buffer, s string) {
		b.Write(append(b.AvailableBuffer(), s...))
	},
	"Fprint": func(b *stackbuf.Buffer, s string) { fmt.Fprint(b, s) },
	"WriteByte": func(b *stackbuf.Buffer, s string) {
		for i := range len(s) {
			b.WriteByte(s[i])
		}
	},
	"WriteRune": func(b *stackbuf.Buffer, s string) {
		for _, c := range s {
			b.WriteRune(c)
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
				for at := 0; at < n; at += piece {
					write(&b, text(n)[at:min(at+piece, n)])
				}
				check(t, fmt.Sprint(what, " ", n, " by ", piece), &b, text(n))
				if stackbuf.Spilled(&b) != (n > 64) {
					t.Errorf("%s: %d bytes by %d are on the heap: %t", what, n, piece,
						stackbuf.Spilled(&b))
				}
			}
		}
	}
}

// Reading makes room: while at most 64 bytes are held at once, the array suffices.
func TestTheArrayIsUsedAgain(t *testing.T) {
	for what, write := range writers {
		var b stackbuf.Buffer
		var want bytes.Buffer
		for i := range 500 {
			n := i * 7 % 33
			write(&b, text(n))
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

// A rune needs only the room of its own encoding, not that of the longest.
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
				t.Errorf("with %d of %d bytes free, %q was written to other memory of %d bytes",
					before, room, r, over.Cap())
			}
		}
	}
}

// The memory at least doubles. Writing n bytes therefore copies only a few times n bytes, and many
// small sources cost no more than as many writes.
func TestMemoryDoubles(t *testing.T) {
	for what, add := range map[string]func(b *stackbuf.Buffer, s string){
		"WriteString": func(b *stackbuf.Buffer, s string) { b.WriteString(s) },
		"ReadFrom":    func(b *stackbuf.Buffer, s string) { b.ReadFrom(strings.NewReader(s)) },
	} {
		var b stackbuf.Buffer
		moves := 0
		for size := b.Cap(); b.Len() < 1<<20; size = b.Cap() {
			add(&b, "0123456789")
			if b.Cap() == size {
				continue
			}
			moves++
			if b.Cap() < 2*size || b.Cap() > 5*size/2 {
				t.Errorf("%s: with %d bytes the memory grew from %d to %d, want about twice as much",
					what, b.Len(), size, b.Cap())
			}
		}
		if moves > 15 {
			t.Errorf("%s: the memory grew %d times", what, moves)
		}
	}
}

// A queue of constant length needs no more memory than at the start, whichever methods write to it.
func TestAQueueDoesNotGrow(t *testing.T) {
	for what, add := range map[string]func(b *stackbuf.Buffer, s string){
		"WriteString": func(b *stackbuf.Buffer, s string) { b.WriteString(s) },
		"unknown": func(b *stackbuf.Buffer, s string) {
			b.ReadFrom(only{strings.NewReader(s)})
		},
		"Len": func(b *stackbuf.Buffer, s string) {
			b.ReadFrom(withLen{strings.NewReader(s), len(s)})
		},
		"limit": func(b *stackbuf.Buffer, s string) {
			b.ReadFrom(io.LimitReader(strings.NewReader(s), int64(len(s))))
		},
	} {
		for _, held := range []int{0, 1, 30, 63, 96, 1000} {
			for _, n := range []int{1, 50, 97, 600, 1200} {
				var b stackbuf.Buffer
				b.WriteString(text(held))
				for range 2000 {
					add(&b, text(n))
					b.Next(n)
				}
				if most := 4*(held+n) + 64; b.Cap() > most {
					t.Errorf("%s: a queue of %d bytes, added to by %d, has %d bytes of memory, want at most %d",
						what, held, n, b.Cap(), most)
				}
			}
		}
	}
}

// A first write of more than 64 bytes allocates the memory that it needs, and not twice as much.
func TestAFirstLargeWriteFits(t *testing.T) {
	for _, n := range []int{65, 100, 1000, 4097, 100_000} {
		for what, write := range map[string]func(b *stackbuf.Buffer){
			"Write":       func(b *stackbuf.Buffer) { b.Write(make([]byte, n)) },
			"WriteString": func(b *stackbuf.Buffer) { b.WriteString(text(n)) },
			"Grow":        func(b *stackbuf.Buffer) { b.Grow(n) },
		} {
			var b stackbuf.Buffer
			if write(&b); b.Cap() > fitting(n) {
				t.Errorf("%s of %d bytes took memory of %d, want at most %d", what, n, b.Cap(),
					fitting(n))
			}
		}
	}
}

// fitting returns the size that the allocator chooses for n bytes.
func fitting(n int) int { return cap(append([]byte(nil), make([]byte, n)...)) }

// blunders are calls that panic.
var blunders = map[string]func(b buffer){
	"Truncate, negative":     func(b buffer) { b.Truncate(-1) },
	"Truncate, too much":     func(b buffer) { b.Truncate(b.Len() + 1) },
	"Truncate, far too much": func(b buffer) { b.Truncate(math.MaxInt) },
	"Truncate to free room":  func(b buffer) { b.Grow(10); b.Truncate(b.Len() + 5) },
	"Grow, negative":         func(b buffer) { b.Grow(-1) },
	"Grow, most negative":    func(b buffer) { b.Grow(math.MinInt) },
	"Grow, too much":         func(b buffer) { b.Grow(math.MaxInt) },
	"Grow, overflow by 1": func(b buffer) {
		b.Grow(math.MaxInt - max(b.Len(), 1) + 1)
	},
	"Grow, just no overflow":           func(b buffer) { b.Grow(math.MaxInt - b.Len()) },
	"Grow, overflow with Cap":          func(b buffer) { b.Grow(math.MaxInt - b.Cap()) },
	"Grow, half of all":                func(b buffer) { b.Grow(math.MaxInt / 2) },
	"ReadFrom, negative":               func(b buffer) { b.ReadFrom(scripted(step{-1, nil})) },
	"ReadFrom, negative with an error": func(b buffer) { b.ReadFrom(scripted(step{-1, io.EOF})) },
	"ReadFrom, too many":               func(b buffer) { b.ReadFrom(scripted(step{beyond, nil})) },
	"ReadFrom, it panics":              func(b buffer) { b.ReadFrom(scripted(step{panics, nil})) },
	"ReadFrom nil":                     func(b buffer) { b.ReadFrom(nil) },
	"Next, negative":                   func(b buffer) { b.Next(-1) },
	"Peek, negative":                   func(b buffer) { b.Peek(-1) },
	"WriteTo, too many":                func(b buffer) { b.WriteTo(&taker{extra: 1}) },
	"WriteTo, far too many": func(b buffer) {
		b.WriteTo(&taker{extra: math.MaxInt / 2})
	},
	"WriteTo, and an error": func(b buffer) { b.WriteTo(&taker{extra: 1, err: io.EOF}) },
	"WriteTo, it panics":    func(b buffer) { b.WriteTo(&taker{panics: true}) },
	"WriteTo nil":           func(b buffer) { b.WriteTo(nil) },
}

// Both panic in the same cases with the same messages, have the same contents afterwards, and
// remain usable.
func TestPanics(t *testing.T) {
	for _, n := range []int{1, 10, 64, 65, 1000} {
		for what, call := range blunders {
			if narrow && strings.HasPrefix(what, "Grow") {
				continue
			}
			for made, b := range filled(text(n)) {
				o := bytes.NewBufferString(text(n))
				got := outcome(func() string { call(b); return "nothing" })
				want := outcome(func() string { call(o); return "nothing" })
				if got != want || !strings.HasPrefix(got, "panic: ") {
					t.Errorf("%s, %s, %d: %s, want %s", what, made, n, got, want)
				}
				check(t, what+", "+made, b, o.String())
				b.WriteString("on")
				o.WriteString("on")
				b.ReadByte()
				o.ReadByte()
				check(t, what+", "+made+", and on", b, o.String())
			}
		}
	}
}

// bytes.Buffer accepts a negative count from a Writer and is broken afterwards. Buffer panics.
func TestWriteToANegativeCountPanics(t *testing.T) {
	for _, n := range []int{1, 64, 65, 1000} {
		for what, b := range filled(text(n)) {
			got := outcome(func() string { b.WriteTo(&taker{extra: -n - 1}); return "nothing" })
			if want := "panic: bytes.Buffer.WriteTo: invalid Write count"; got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
			check(t, what, b, text(n))
		}
	}
}

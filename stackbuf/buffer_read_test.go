package stackbuf_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-io/millrace/stackbuf"
)

// readers empty a Buffer in pieces of n bytes.
var readers = map[string]func(b *stackbuf.Buffer, n int) string{
	"Read": func(b *stackbuf.Buffer, n int) string {
		var all strings.Builder
		p := make([]byte, n)
		for {
			m, err := b.Read(p)
			all.Write(p[:m])
			if err != nil {
				return all.String()
			}
		}
	},
	"Next": func(b *stackbuf.Buffer, n int) string {
		var all strings.Builder
		for b.Len() > 0 {
			all.Write(b.Next(n))
		}
		return all.String()
	},
	"ReadByte": func(b *stackbuf.Buffer, _ int) string {
		var all strings.Builder
		for c, err := b.ReadByte(); err == nil; c, err = b.ReadByte() {
			all.WriteByte(c)
		}
		return all.String()
	},
	"ReadRune": func(b *stackbuf.Buffer, _ int) string {
		var all strings.Builder
		for c, _, err := b.ReadRune(); err == nil; c, _, err = b.ReadRune() {
			all.WriteRune(c)
		}
		return all.String()
	},
	"ReadString": func(b *stackbuf.Buffer, _ int) string {
		var all strings.Builder
		for {
			line, err := b.ReadString('A')
			all.WriteString(line)
			if err != nil {
				return all.String()
			}
		}
	},
	"ReadBytes": func(b *stackbuf.Buffer, _ int) string {
		var all strings.Builder
		for {
			line, err := b.ReadBytes('A')
			all.Write(line)
			if err != nil {
				return all.String()
			}
		}
	},
}

func TestReadingInPieces(t *testing.T) {
	for how, read := range readers {
		for _, n := range sizes {
			for _, piece := range []int{1, 3, 40, 64, 65, 5000} {
				for what, b := range filled(text(n)) {
					if n > 5000 && piece < 40 {
						continue
					}
					if got := read(b, piece); got != text(n) {
						t.Errorf("%s of %s, %d by %d, gives %q", how, what, n, piece, got)
					}
					check(t, what, b, "")
				}
			}
		}
	}
}

// What each method gives when there is nothing.
func TestReadingNothing(t *testing.T) {
	for _, left := range []int{0, 1, 64, 65, 1000} {
		for what, b := range filled(text(left)) {
			b.Next(left)
			if n, err := b.Read(nil); n != 0 || err != nil {
				t.Errorf("%s: Read of no bytes = %d, %v", what, n, err)
			}
			if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: Read = %d, %v", what, n, err)
			}
			if c, err := b.ReadByte(); c != 0 || err != io.EOF {
				t.Errorf("%s: ReadByte = %d, %v", what, c, err)
			}
			if c, n, err := b.ReadRune(); c != 0 || n != 0 || err != io.EOF {
				t.Errorf("%s: ReadRune = %d, %d, %v", what, c, n, err)
			}
			if line, err := b.ReadBytes('x'); line != nil || err != io.EOF {
				t.Errorf("%s: ReadBytes = %q, %v", what, line, err)
			}
			if line, err := b.ReadString('x'); line != "" || err != io.EOF {
				t.Errorf("%s: ReadString = %q, %v", what, line, err)
			}
			if p, err := b.Peek(1); len(p) != 0 || err != io.EOF {
				t.Errorf("%s: Peek = %q, %v", what, p, err)
			}
			if p := b.Next(1); len(p) != 0 {
				t.Errorf("%s: Next = %q", what, p)
			}
		}
	}
}

func TestPeek(t *testing.T) {
	for _, n := range sizes {
		for what, b := range filled(text(n)) {
			for read := range min(n, 3) + 1 {
				for _, m := range []int{0, 1, n / 2, n - read, n - read + 1, n + 1000} {
					p, err := b.Peek(m)
					if m <= n-read && (string(p) != text(n)[read:read+m] || err != nil) {
						t.Errorf("%s: Peek(%d) of %d = %q, %v", what, m, n-read, p, err)
					}
					if m > n-read && (string(p) != text(n)[read:] || err != io.EOF) {
						t.Errorf("%s: Peek(%d) of %d = %q, %v, want all and io.EOF", what, m, n-read, p, err)
					}
				}
				check(t, what, b, text(n)[read:])
				b.ReadByte()
			}
		}
	}
}

func TestNext(t *testing.T) {
	const all = 70
	for _, held := range []int{5, 60, all} {
		for skip := range 6 {
			for n := range 8 {
				b := stackbuf.NewBufferString(text(held))
				b.Next(skip)
				want := text(held)[skip:min(skip+n, held)]
				if got := string(b.Next(n)); got != want {
					t.Errorf("Next(%d) behind %d of %d = %q, want %q", n, skip, held, got, want)
				}
				check(t, "rest", b, text(held)[skip+len(want):])
			}
		}
	}
}

func TestReadLines(t *testing.T) {
	long := strings.Repeat("long", 100)
	for _, c := range []struct {
		contents string
		delim    byte
		want     []string // the last one comes with io.EOF
	}{
		{"", 0, []string{""}},
		{"a\x00", 0, []string{"a\x00", ""}},
		{"abbbaaaba", 'b', []string{"ab", "b", "b", "aaab", "a"}},
		{"hello\x01world", 1, []string{"hello\x01", "world"}},
		{"foo\nbar", 0, []string{"foo\nbar"}},
		{"alpha\nbeta\ngamma\n", '\n', []string{"alpha\n", "beta\n", "gamma\n", ""}},
		{"\n\n", '\n', []string{"\n", "\n", ""}},
		{long + "\n" + long, '\n', []string{long + "\n", long}},
	} {
		for what, b := range filled(c.contents) {
			bytewise := *b
			for i, want := range c.want {
				wantErr := error(nil)
				if i == len(c.want)-1 {
					wantErr = io.EOF
				}
				if line, err := b.ReadString(c.delim); line != want || err != wantErr {
					t.Errorf("%s: ReadString(%q) = %q, %v, want %q, %v", what, c.delim, line, err, want, wantErr)
				}
				line, err := bytewise.ReadBytes(c.delim)
				if string(line) != want || err != wantErr {
					t.Errorf("%s: ReadBytes(%q) = %q, %v, want %q, %v", what, c.delim, line, err, want, wantErr)
				}
				if clear(line); b.String() != bytewise.String() {
					t.Errorf("%s: ReadBytes returns no copy", what)
				}
			}
		}
	}
}

// All runes of a few bytes each, and what is none, come back as they were written.
func TestRunes(t *testing.T) {
	var want []rune
	var b stackbuf.Buffer
	for r := rune(0); r <= utf8.MaxRune; r += 1 + r/8 {
		want = append(want, r)
		b.WriteRune(r)
	}
	for i, r := range want {
		if !utf8.ValidRune(r) {
			r = utf8.RuneError
		}
		for range 2 {
			got, n, err := b.ReadRune()
			if got != r || n != utf8.RuneLen(r) || err != nil {
				t.Fatalf("rune %d is %#x, %d, %v, want %#x", i, got, n, err, r)
			}
			if err := b.UnreadRune(); err != nil {
				t.Fatalf("rune %d: %v", i, err)
			}
		}
		b.ReadRune()
	}
	check(t, "after all", &b, "")
}

func TestReadRuneOfWhatIsNone(t *testing.T) {
	for _, s := range []string{"\xff", "\x80\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf0\x9d\x84", "\xf5\x80\x80\x80"} {
		for what, b := range filled(s + "a") {
			for i := range s {
				if r, n, err := b.ReadRune(); r != utf8.RuneError || n != 1 || err != nil {
					t.Errorf("%s: ReadRune at %d of %q = %#x, %d, %v", what, i, s, r, n, err)
				}
			}
			check(t, what, b, "a")
		}
	}
}

// unreadable says after which calls UnreadByte and UnreadRune succeed.
var unreadable = map[string]struct {
	call       func(b *stackbuf.Buffer)
	byte, rune bool
}{
	"nothing":           {func(*stackbuf.Buffer) {}, false, false},
	"Bytes":             {func(b *stackbuf.Buffer) { b.ReadByte(); b.Bytes() }, true, false},
	"String":            {func(b *stackbuf.Buffer) { b.ReadRune(); _ = b.String() }, true, true},
	"Peek":              {func(b *stackbuf.Buffer) { b.ReadRune(); b.Peek(1) }, true, true},
	"Read":              {func(b *stackbuf.Buffer) { b.Read(make([]byte, 2)) }, true, false},
	"Read of none":      {func(b *stackbuf.Buffer) { b.ReadByte(); b.Read(nil) }, false, false},
	"Next":              {func(b *stackbuf.Buffer) { b.Next(2) }, true, false},
	"Next of none":      {func(b *stackbuf.Buffer) { b.ReadByte(); b.Next(0) }, false, false},
	"ReadByte":          {func(b *stackbuf.Buffer) { b.ReadByte() }, true, false},
	"ReadRune":          {func(b *stackbuf.Buffer) { b.ReadRune() }, true, true},
	"ReadBytes":         {func(b *stackbuf.Buffer) { b.ReadBytes('A') }, true, false},
	"ReadString":        {func(b *stackbuf.Buffer) { b.ReadString('A') }, true, false},
	"UnreadByte":        {func(b *stackbuf.Buffer) { b.ReadByte(); b.UnreadByte() }, false, false},
	"UnreadRune":        {func(b *stackbuf.Buffer) { b.ReadRune(); b.UnreadRune() }, false, false},
	"a failing Unread*": {func(b *stackbuf.Buffer) { b.ReadByte(); b.UnreadRune() }, true, false},
	"Write":             {func(b *stackbuf.Buffer) { b.ReadByte(); b.Write(nil) }, false, false},
	"WriteString":       {func(b *stackbuf.Buffer) { b.ReadByte(); b.WriteString("") }, false, false},
	"WriteByte":         {func(b *stackbuf.Buffer) { b.ReadByte(); b.WriteByte('x') }, false, false},
	"WriteRune":         {func(b *stackbuf.Buffer) { b.ReadByte(); b.WriteRune('é') }, false, false},
	"ReadFrom":          {func(b *stackbuf.Buffer) { b.ReadByte(); b.ReadFrom(strings.NewReader("x")) }, false, false},
	"WriteTo":           {func(b *stackbuf.Buffer) { b.ReadByte(); b.WriteTo(&taker{most: 1}) }, false, false},
	"Truncate":          {func(b *stackbuf.Buffer) { b.ReadByte(); b.Truncate(1) }, false, false},
	"Reset":             {func(b *stackbuf.Buffer) { b.ReadByte(); b.Reset() }, false, false},
}

func TestUnread(t *testing.T) {
	for _, n := range []int{10, 64, 65, 300} {
		for after, c := range unreadable {
			for what, b := range filled(text(n)) {
				if c.call(b); (b.UnreadByte() == nil) != c.byte {
					t.Errorf("%s, %d: UnreadByte after %s succeeds: %t, want %t", what, n, after, !c.byte, c.byte)
				}
			}
			for what, b := range filled(text(n)) {
				if c.call(b); (b.UnreadRune() == nil) != c.rune {
					t.Errorf("%s, %d: UnreadRune after %s succeeds: %t, want %t", what, n, after, !c.rune, c.rune)
				}
			}
		}
	}
}

func TestUnreadTakesBack(t *testing.T) {
	for what, b := range filled("a€" + text(70)) {
		b.Next(2)
		b.UnreadByte()
		check(t, fmt.Sprint(what, ", half of a rune"), b, "€"+text(70))
		b.ReadRune()
		b.UnreadRune()
		check(t, fmt.Sprint(what, ", a rune"), b, "€"+text(70))
		b.ReadRune()
		b.UnreadByte()
		check(t, fmt.Sprint(what, ", the end of a rune"), b, "\xac"+text(70))
		b.Next(1000)
		b.UnreadByte()
		check(t, fmt.Sprint(what, ", the last byte"), b, text(70)[69:])
	}
}

// When all has been read, the last byte can be taken back, but not after a Read that found nothing.
func TestUnreadAtTheEnd(t *testing.T) {
	for what, b := range filled("a") {
		b.ReadByte()
		b.ReadBytes('x')
		if err := b.UnreadByte(); err != nil {
			t.Errorf("%s: UnreadByte after ReadBytes at the end: %v", what, err)
		}
		check(t, what, b, "a")
		b.ReadByte()
		b.ReadByte()
		if err := b.UnreadByte(); err == nil {
			t.Errorf("%s: UnreadByte after ReadByte at the end succeeds", what)
		}
	}
}

// Grow alone does not change what Unread* may do, as long as there is something in b.
func TestUnreadAfterGrow(t *testing.T) {
	for _, n := range []int{0, 1, 30} { // so few that nothing moves
		b := stackbuf.NewBufferString("aéb")
		b.ReadByte()
		b.ReadRune()
		b.Grow(n)
		if err := b.UnreadRune(); err != nil {
			t.Errorf("UnreadRune after Grow(%d): %v", n, err)
		}
		check(t, "taken back", b, "éb")
	}
	moved := stackbuf.NewBufferString("aéb")
	moved.ReadByte()
	moved.ReadRune()
	moved.Grow(1000)
	if err := moved.UnreadRune(); err != nil {
		t.Errorf("UnreadRune after the contents have moved: %v", err)
	}
	check(t, "moved, so that there is nothing left to take back", moved, "b")
	var b stackbuf.Buffer
	b.ReadBytes('x')
	b.Grow(1)
	if err := b.UnreadByte(); err != nil { // as of a bytes.Buffer: ReadBytes of nothing counts as a read
		t.Errorf("UnreadByte after ReadBytes of nothing and Grow: %v", err)
	}
	check(t, "never written", &b, "")
}

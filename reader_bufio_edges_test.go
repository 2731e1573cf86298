package millrace_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
)

func TestReaderUnread(t *testing.T) {
	const text = "héllo, world\n日本語 and so on"
	// What is called after ReadRune, and whether the byte or the rune before can still be unread.
	for name, test := range map[string]struct {
		call       func(r bufferedReader)
		byte, rune bool
	}{
		"nothing":          {func(bufferedReader) {}, true, true},
		"Buffered":         {func(r bufferedReader) { r.Buffered() }, true, true},
		"Peek(0)":          {func(r bufferedReader) { r.Peek(0) }, false, false},
		"Peek":             {func(r bufferedReader) { r.Peek(1) }, false, false},
		"Discard(0)":       {func(r bufferedReader) { r.Discard(0) }, true, true},
		"Discard":          {func(r bufferedReader) { r.Discard(1) }, false, false},
		"WriteTo":          {func(r bufferedReader) { r.WriteTo(io.Discard) }, false, false},
		"Read":             {func(r bufferedReader) { r.Read(make([]byte, 2)) }, true, false},
		"Read(nil)":        {func(r bufferedReader) { r.Read(nil) }, true, true},
		"ReadByte":         {func(r bufferedReader) { r.ReadByte() }, true, false},
		"ReadSlice":        {func(r bufferedReader) { r.ReadSlice('\n') }, true, false},
		"ReadLine":         {func(r bufferedReader) { r.ReadLine() }, true, false},
		"ReadBytes":        {func(r bufferedReader) { r.ReadBytes('o') }, true, false},
		"ReadString":       {func(r bufferedReader) { r.ReadString('o') }, true, false},
		"UnreadByte":       {func(r bufferedReader) { r.UnreadByte() }, false, false},
		"UnreadRune":       {func(r bufferedReader) { r.UnreadRune() }, false, false},
		"ReadByte, Unread": {func(r bufferedReader) { r.ReadByte(); r.UnreadByte() }, false, false},
		"Reset":            {func(r bufferedReader) { r.Reset(strings.NewReader(text)) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bothReaders(t, func(t *testing.T, newReader maker) {
				r := newReader(strings.NewReader(text), 0)
				r.ReadRune()
				test.call(r)
				if err := r.UnreadByte(); (err == nil) != test.byte || err != nil && err != bufio.ErrInvalidUnreadByte {
					t.Errorf("UnreadByte: %v", err)
				}
				if err := r.UnreadByte(); err != bufio.ErrInvalidUnreadByte {
					t.Errorf("second UnreadByte: %v", err)
				}
				r = newReader(strings.NewReader(text), 0)
				r.ReadRune()
				test.call(r)
				if err := r.UnreadRune(); (err == nil) != test.rune || err != nil && err != bufio.ErrInvalidUnreadRune {
					t.Errorf("UnreadRune: %v", err)
				}
				if err := r.UnreadRune(); err != bufio.ErrInvalidUnreadRune {
					t.Errorf("second UnreadRune: %v", err)
				}
			})
		})
	}
}

// What millrace adds counts as follows: an integer can be unread by its last byte, bytes that were lent or moved not.
func TestReaderUnreadAfterOwnMethods(t *testing.T) {
	for name, test := range map[string]struct {
		call func(r *millrace.Reader)
		byte bool
	}{
		"ReadRange":   {func(r *millrace.Reader) { r.ReadRange(1, func([]byte) {}) }, false},
		"ReadChain":   {func(r *millrace.Reader) { var c millrace.Chain; r.ReadChain(&c, 1); c.Release() }, false},
		"Skip":        {func(r *millrace.Reader) { r.Skip(1) }, false},
		"ReadBE":      {func(r *millrace.Reader) { r.ReadBE(3) }, true},
		"ReadLE":      {func(r *millrace.Reader) { r.ReadLE(2) }, true},
		"ReadUvarint": {func(r *millrace.Reader) { r.ReadUvarint() }, true},
		"ReadULEB128": {func(r *millrace.Reader) { r.ReadULEB128() }, true},
		"Release":     {func(r *millrace.Reader) { r.Release() }, false},
	} {
		r := millrace.NewReader(strings.NewReader("abcdefghij"))
		r.ReadRune()
		test.call(r)
		if err := r.UnreadRune(); err != bufio.ErrInvalidUnreadRune {
			t.Errorf("%s: UnreadRune: %v", name, err)
		}
		if err := r.UnreadByte(); (err == nil) != test.byte {
			t.Errorf("%s: UnreadByte: %v", name, err)
		}
		r.Release()
	}
}

// The byte that is unread need not lie in the buffer any more.
func TestReaderUnreadByteAfterTheBufferMovedOn(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		for name, read := range map[string]func(r bufferedReader){
			"the end":      func(r bufferedReader) { io.ReadAll(r); r.ReadByte() },
			"a large Read": func(r bufferedReader) { io.ReadFull(r, make([]byte, 10000)) },
		} {
			r := newReader(strings.NewReader(strings.Repeat("0123456789", 1000)), 16)
			read(r)
			if err := r.UnreadByte(); err != nil {
				t.Fatalf("%s: UnreadByte: %v", name, err)
			}
			if n := r.Buffered(); n != 1 {
				t.Errorf("%s: %d bytes buffered after UnreadByte", name, n)
			}
			if b, err := io.ReadAll(r); string(b) != "9" || err != nil {
				t.Errorf("%s: read %q, %v after UnreadByte", name, b, err)
			}
		}
	})
}

func TestReaderPeek(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		r := newReader(strings.NewReader("abcdefghijklmnop"), 16)
		peek := func(n int, want string, wantErr error) {
			t.Helper()
			if b, err := r.Peek(n); string(b) != want || err != wantErr {
				t.Errorf("Peek(%d) = %q, %v; want %q, %v", n, b, err, want, wantErr)
			}
		}
		peek(1, "a", nil)
		peek(4, "abcd", nil)
		peek(-1, "", bufio.ErrNegativeCount)
		peek(32, "abcdefghijklmnop", bufio.ErrBufferFull)
		r.Discard(3)
		peek(1, "d", nil)
		peek(14, "defghijklmnop", io.EOF)
		peek(17, "defghijklmnop", bufio.ErrBufferFull) // not io.EOF, which the next call would not see
		r.Discard(13)
		peek(0, "", nil)
		peek(1, "", io.EOF)
	})
}

// An error that came with the bytes is not reported while Peek gets all that it asked for.
func TestReaderPeekKeepsTheErrorForLater(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		r := newReader(&script{{"abcd", io.EOF}}, 32)
		for _, n := range []int{2, 4, 4} {
			if b, err := r.Peek(n); string(b) != "abcd"[:n] || err != nil {
				t.Errorf("Peek(%d) = %q, %v", n, b, err)
			}
		}
		p := make([]byte, 5)
		if n, err := r.Read(p); string(p[:n]) != "abcd" || err != nil {
			t.Errorf("Read = %q, %v", p[:n], err)
		}
		if n, err := r.Read(p); n != 0 || err != io.EOF {
			t.Errorf("Read at the end = %d, %v", n, err)
		}
	})
}

func TestReaderReadLine(t *testing.T) {
	type line struct {
		text   string
		prefix bool
		err    error
	}
	eof := line{"", false, io.EOF}
	for input, want := range map[string][]line{
		"":                      {eof, eof},
		"\n":                    {{}, eof},
		"\r\n":                  {{}, eof},
		"\r":                    {{text: "\r"}, eof},
		"one\ntwo\r\nthree":     {{text: "one"}, {text: "two"}, {text: "three"}, eof},
		"a\r\r\n\n\r\nb\r":      {{text: "a\r"}, {}, {}, {text: "b\r"}, eof},
		"0123456789abcde\n0":    {{text: "0123456789abcde"}, {text: "0"}, eof},
		"0123456789abcde\r\n":   {{text: "0123456789abcde", prefix: true}, {}, eof},
		"0123456789abcdef0123":  {{text: "0123456789abcdef", prefix: true}, {text: "0123"}, eof},
		"0123456789abcdef\r012": {{text: "0123456789abcdef", prefix: true}, {text: "\r012"}, eof},
		"0123456789abcdef\r0123456789abcd\r\n": {
			{text: "0123456789abcdef", prefix: true}, {text: "\r0123456789abcd", prefix: true}, {}, eof,
		},
	} {
		bothReaders(t, func(t *testing.T, newReader maker) {
			for _, src := range iotestReaders[:4] {
				r := newReader(src.wrap(strings.NewReader(input)), 16)
				for i, w := range want {
					b, prefix, err := r.ReadLine()
					if string(b) != w.text || prefix != w.prefix || err != w.err {
						t.Errorf("%s, %q, line %d: %q, %v, %v; want %+v", src.name, input, i, b, prefix, err, w)
					}
					if (b == nil) != (err != nil) {
						t.Errorf("%s, %q, line %d: a line or an error, not %#v and %v", src.name, input, i, b, err)
					}
				}
			}
		})
	}
}

// A source's own ErrBufferFull is not taken for a line that is too long and ends in "\r".
func TestReaderReadLineOfASourceThatIsFull(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		for _, text := range []string{"", "abc"} {
			r := newReader(&script{{text, bufio.ErrBufferFull}}, 16)
			if line, prefix, err := r.ReadLine(); string(line) != text || !prefix || err != nil {
				t.Errorf("%q, %v, %v; want %q, true", line, prefix, err, text)
			}
		}
	})
}

// UnreadByte after ReadLine puts back what ReadLine read last, whether or not that is part of the line.
func TestReaderUnreadByteAfterReadLine(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		for input, want := range map[string]string{
			"one\r\ntwo":               "\ntwo",
			"one":                      "e",
			"0123456789abcde\r\nf":     "\r\r\nf", // bufio's own quirk: the '\r' was put back already
			"0123456789abcdef012":      "f012",
			"0123456789abcd\r\r\nwxyz": "\r\r\nwxyz",
		} {
			r := newReader(strings.NewReader(input), 16)
			r.ReadLine()
			if err := r.UnreadByte(); err != nil {
				t.Errorf("%q: %v", input, err)
			}
			if b, _ := io.ReadAll(r); string(b) != want {
				t.Errorf("%q: %q comes next, want %q", input, b, want)
			}
		}
	})
}

// The byte that is put back comes before all that has arrived, also when that lies in several pieces.
func TestFedReaderUnreadByte(t *testing.T) {
	first := bytes.Repeat([]byte{'x'}, 4095)
	r := feedApart(append(first, "\rnext"...), 2048)
	defer r.Release()
	if line, prefix, err := r.ReadLine(); !bytes.Equal(line, first) || !prefix || err != nil {
		t.Fatalf("ReadLine = %d bytes, %v, %v", len(line), prefix, err)
	}
	if err := r.UnreadByte(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); string(b) != "\r\rnext" || err != nil {
		t.Errorf("%q, %v comes next", b, err)
	}
}

func TestReaderDiscard(t *testing.T) {
	errLate := errors.New("five bytes, then this")
	for _, test := range []struct {
		src      func() io.Reader
		peek, n  int
		want     int
		err      error
		buffered int
	}{
		{alphabet, 16, 6, 6, nil, 10},
		{alphabet, 0, 6, 6, nil, 10},
		{alphabet, 0, 26, 26, nil, 0},
		{alphabet, 0, 27, 26, io.EOF, 0},
		{func() io.Reader { return &script{{"abcde", errLate}} }, 0, 4, 4, nil, 1},
		{func() io.Reader { return &script{{"abcde", errLate}} }, 0, 5, 5, nil, 0},
		{func() io.Reader { return &script{{"abcde", errLate}} }, 0, 6, 5, errLate, 0},
		{func() io.Reader { return &script{} }, 0, 0, 0, nil, 0},
		{func() io.Reader { return &script{} }, 0, -1, 0, bufio.ErrNegativeCount, 0},
	} {
		bothReaders(t, func(t *testing.T, newReader maker) {
			r := newReader(test.src(), 16)
			if _, err := r.Peek(test.peek); err != nil {
				t.Fatal(err)
			}
			n, err := r.Discard(test.n)
			if n != test.want || err != test.err {
				t.Errorf("Discard(%d) = %d, %v; want %d, %v", test.n, n, err, test.want, test.err)
			}
			// Ours may have read more of what there was.
			if n := r.Buffered(); n < test.buffered || n > test.buffered && n != 26-test.n {
				t.Errorf("after Discard(%d): %d buffered, want %d", test.n, n, test.buffered)
			}
		})
	}
}

func alphabet() io.Reader { return strings.NewReader("abcdefghijklmnopqrstuvwxyz") }

func TestReaderReset(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		all := func(r io.Reader, want string) {
			t.Helper()
			if b, err := io.ReadAll(r); string(b) != want || err != nil {
				t.Errorf("read %q, %v, want %q", b, err, want)
			}
		}
		r := newReader(strings.NewReader("foo foo"), 0)
		r.Read(make([]byte, 3))
		r.Reset(strings.NewReader("bar bar"))
		all(r, "bar bar")
		r.Reset(&script{{"lost", errors.New("lost, too")}})
		r.ReadByte()
		r.Reset(strings.NewReader("baz"))
		all(r, "baz")
		r.Reset(strings.NewReader("itself"))
		r.ReadByte()
		r.Reset(r) // does nothing: it would read from itself for ever
		all(r, "tself")
		if same := newReader(r, r.Size()); same != r {
			t.Error("a Reader of a Reader that is as large is a new one")
		}
		r.Reset(strings.NewReader("shared"))
		larger := newReader(r, r.Size()+1)
		if larger == r {
			t.Error("a Reader of a smaller Reader is the same one")
		}
		all(larger, "shared")
	})
	var zero millrace.Reader
	zero.Reset(strings.NewReader("zero"))
	if b, err := io.ReadAll(&zero); string(b) != "zero" || err != nil || zero.Size() != 4096 {
		t.Errorf("after Reset of the zero Reader: %q, %v, size %d", b, err, zero.Size())
	}
	zero.Release()
}

func TestReaderSize(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		for size, want := range map[int]int{0: 4096, -5: 16, 1: 16, 16: 16, 17: 17, 1234: 1234, 1 << 20: 1 << 20} {
			if got := newReader(nil, size).Size(); got != want {
				t.Errorf("Size() = %d for size %d, want %d", got, size, want)
			}
		}
	})
}

// badReader returns a count that no Read may return.
type badReader func(p []byte) int

func (r badReader) Read(p []byte) (int, error) { return r(p), nil }

func TestReaderPanicsOnAnImpossibleCount(t *testing.T) {
	for name, read := range map[string]func(r *millrace.Reader){
		"Read":       func(r *millrace.Reader) { r.Read(make([]byte, 10)) },
		"Read large": func(r *millrace.Reader) { r.Read(make([]byte, 10000)) },
		"ReadByte":   func(r *millrace.Reader) { r.ReadByte() },
		"Peek":       func(r *millrace.Reader) { r.Peek(10) },
		"ReadChain":  func(r *millrace.Reader) { r.ReadChain(new(millrace.Chain), 10) },
		"ReadRange":  func(r *millrace.Reader) { r.ReadRange(10, func([]byte) {}) },
	} {
		for _, src := range []badReader{
			func([]byte) int { return -1 },
			func(p []byte) int { return len(p) + 1 },
		} {
			r := millrace.NewReader(src)
			wantPanic(t, name, "millrace: reader returned an impossible count from Read", func() { read(r) })
			r.Release()
		}
	}
}

// wantPanic checks that f panics with an error or a string that contains text.
func wantPanic(t testing.TB, what, text string, f func()) {
	t.Helper()
	if got := panicText(f); got == "" {
		t.Errorf("%s did not panic", what)
	} else if !strings.Contains(got, text) {
		t.Errorf("%s panicked with %v, want %q", what, got, text)
	}
}

// panicText returns what f panics with.
func panicText(f func()) (text string) {
	defer func() {
		if e := recover(); e != nil {
			text = fmt.Sprint(e)
		}
	}()
	f()
	return ""
}

// A Reader passes the rest to a source that can write itself, or to a writer that can read.
func TestReaderWriteTo(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		text := strings.Repeat("some text of this length. ", 1000)
		for name, src := range map[string]func() io.Reader{
			"a WriterTo":   func() io.Reader { return strings.NewReader(text) },
			"no WriterTo":  func() io.Reader { return struct{ io.Reader }{strings.NewReader(text)} },
			"data and EOF": func() io.Reader { return iotestReaders[3].wrap(strings.NewReader(text)) },
		} {
			for _, skip := range []int{0, 3, len(text)} {
				var w1, w2 bytes.Buffer
				for i, w := range []io.Writer{&w1, plainWriter{&w2}} {
					r := newReader(src(), 16)
					r.Discard(skip)
					n, err := r.WriteTo(w)
					if n != int64(len(text)-skip) || err != nil {
						t.Errorf("%s, writer %d, skip %d: %d, %v", name, i, skip, n, err)
					}
				}
				if w1.String() != text[skip:] || w2.String() != text[skip:] {
					t.Errorf("%s, skip %d: wrote %d and %d bytes", name, skip, w1.Len(), w2.Len())
				}
			}
		}
	})
}

func TestReaderWriteToReturnsErrors(t *testing.T) {
	errRead, errWrite := errors.New("read"), errors.New("write")
	bothReaders(t, func(t *testing.T, newReader maker) {
		r := newReader(&script{{"abc", nil}, {"def", errRead}}, 0)
		r.ReadByte()
		var w bytes.Buffer
		if n, err := r.WriteTo(&w); n != 5 || err != errRead || w.String() != "bcdef" {
			t.Errorf("WriteTo = %d, %v, wrote %q", n, err, w.String())
		}
		r = newReader(&script{{"abcdef", nil}}, 0)
		r.ReadByte()
		if n, err := r.WriteTo(&failingWriter{2, errWrite}); n != 2 || err != errWrite {
			t.Errorf("WriteTo = %d, %v to a writer that fails after 2", n, err)
		}
		if b, err := r.Peek(3); string(b) != "def" || err != nil {
			t.Errorf("Peek = %q, %v after WriteTo failed", b, err)
		}
	})
	r := millrace.NewReader(strings.NewReader("abcdef"))
	defer r.Release()
	r.Peek(1)
	if n, err := r.WriteTo(&failingWriter{2, nil}); n != 2 || err != io.ErrShortWrite {
		t.Errorf("WriteTo = %d, %v to a writer that takes 2 and says nothing", n, err)
	}
	wantPanic(t, "WriteTo", "impossible count", func() { r.WriteTo(&failingWriter{-1, nil}) })
}

// failingWriter takes n bytes of the first Write and returns err.
type failingWriter struct {
	n   int
	err error
}

func (w *failingWriter) Write(p []byte) (int, error) { return min(w.n, len(p)), w.err }

// A line that is longer than the largest size class is moved to a larger block a few times, however it arrives.
func TestLongLinesAreMovedRarely(t *testing.T) {
	line := append(letters(5<<20), '\n')
	for _, read := range []int{1460, 64 << 10} {
		pool := millrace.NewPool()
		r := pool.NewReader(atMost(bytes.NewReader(line), read), 16<<20)
		got, err := r.ReadSlice('\n')
		if err != nil || !bytes.Equal(got, line) {
			t.Errorf("in reads of %d: ReadSlice = %d bytes, %v", read, len(got), err)
		}
		if s := pool.Stats(); s.Oversize > 4 {
			t.Errorf("in reads of %d: %d blocks above 1 MiB", read, s.Oversize)
		}
		r.Release()
	}
}

// atMost is src, of which a Read gives n bytes at most.
func atMost(src io.Reader, n int) io.Reader {
	return readerFunc(func(p []byte) (int, error) { return src.Read(p[:min(n, len(p))]) })
}

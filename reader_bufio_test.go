package millrace_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/millrace-io/millrace"
)

// bufferedReader is the method set of *bufio.Reader.
type bufferedReader interface {
	io.Reader
	io.ByteScanner
	io.RuneScanner
	io.WriterTo
	Buffered() int
	Discard(n int) (int, error)
	Peek(n int) ([]byte, error)
	ReadBytes(delim byte) ([]byte, error)
	ReadLine() ([]byte, bool, error)
	ReadSlice(delim byte) ([]byte, error)
	ReadString(delim byte) (string, error)
	Reset(r io.Reader)
	Size() int
}

var (
	_ bufferedReader = (*bufio.Reader)(nil)
	_ bufferedReader = (*millrace.Reader)(nil)
)

// A maker makes either kind of Reader; size 0 means the default.
type maker func(src io.Reader, size int) bufferedReader

// bothReaders runs a test of what bufio.Reader does on bufio.Reader, to show that the test is right, and on ours.
func bothReaders(t *testing.T, test func(t *testing.T, newReader maker)) {
	t.Run("bufio", func(t *testing.T) {
		test(t, func(src io.Reader, size int) bufferedReader {
			if size == 0 {
				return bufio.NewReader(src)
			}
			return bufio.NewReaderSize(src, size)
		})
	})
	t.Run("millrace", func(t *testing.T) {
		test(t, func(src io.Reader, size int) bufferedReader {
			var r *millrace.Reader
			if size == 0 {
				r = millrace.NewReader(src)
			} else {
				r = millrace.NewReaderSize(src, size)
			}
			t.Cleanup(r.Release)
			return r
		})
	})
}

var readerSizes = []int{0, 1, 16, 23, 32, 46, 64, 93, 128, 1024, 4096}

var iotestReaders = []struct {
	name string
	wrap func(io.Reader) io.Reader
}{
	{"whole", func(r io.Reader) io.Reader { return r }},
	{"OneByteReader", iotest.OneByteReader},
	{"HalfReader", iotest.HalfReader},
	{"DataErrReader", iotest.DataErrReader},
	{"TimeoutReader", iotest.TimeoutReader},
	{"OneByteReader, TimeoutReader", func(r io.Reader) io.Reader { return iotest.TimeoutReader(iotest.OneByteReader(r)) }},
	{"DataErrReader, HalfReader", func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.HalfReader(r)) }},
}

// untilEOF calls read until io.EOF and joins what it gives. Timeouts are passed over.
func untilEOF(t *testing.T, read func() ([]byte, error)) string {
	t.Helper()
	var all []byte
	for {
		b, err := read()
		all = append(all, b...)
		if err == io.EOF {
			return string(all)
		}
		if err != nil && err != iotest.ErrTimeout {
			t.Fatal(err)
		}
	}
}

// wholeText are ways to read all of a text.
var wholeText = map[string]func(t *testing.T, r bufferedReader) string{
	"Read":       func(t *testing.T, r bufferedReader) string { return readInSteps(t, r, 7) },
	"Read large": func(t *testing.T, r bufferedReader) string { return readInSteps(t, r, 5000) },
	"ReadByte": func(t *testing.T, r bufferedReader) string {
		return untilEOF(t, func() ([]byte, error) {
			c, err := r.ReadByte()
			if err != nil {
				return nil, err
			}
			return []byte{c}, nil
		})
	},
	"ReadString": func(t *testing.T, r bufferedReader) string {
		return untilEOF(t, func() ([]byte, error) {
			s, err := r.ReadString('\n')
			return []byte(s), err
		})
	},
	"ReadBytes": func(t *testing.T, r bufferedReader) string {
		return untilEOF(t, func() ([]byte, error) { return r.ReadBytes('\n') })
	},
	"ReadSlice": func(t *testing.T, r bufferedReader) string {
		return untilEOF(t, func() ([]byte, error) {
			b, err := r.ReadSlice('\n')
			if err == bufio.ErrBufferFull {
				err = nil
			}
			return b, err
		})
	},
	"Peek and Discard": func(t *testing.T, r bufferedReader) string {
		return untilEOF(t, func() ([]byte, error) {
			b, err := r.Peek(3)
			b = bytes.Clone(b)
			r.Discard(len(b))
			return b, err
		})
	},
	"WriteTo": func(t *testing.T, r bufferedReader) string {
		var w strings.Builder
		for {
			if _, err := r.WriteTo(&w); err == nil {
				return w.String()
			} else if err != iotest.ErrTimeout {
				t.Fatal(err)
			}
		}
	},
}

func readInSteps(t *testing.T, r io.Reader, step int) string {
	b := make([]byte, step)
	return untilEOF(t, func() ([]byte, error) {
		n, err := r.Read(b)
		return b[:n], err
	})
}

func TestReaderReadsTheWholeText(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		var text strings.Builder
		for i := range 31 {
			fmt.Fprintln(&text, strings.Repeat(string(rune('a'+i%26)), i*i/4))
		}
		for _, src := range iotestReaders {
			for how, read := range wholeText {
				for _, size := range readerSizes {
					r := newReader(src.wrap(strings.NewReader(text.String())), size)
					if got := read(t, r); got != text.String() {
						t.Errorf("%s, %s, size %d: got %q", src.name, how, size, got)
					}
				}
			}
		}
	})
}

func TestReaderReportsTheErrorOfItsSource(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		errBroken := errors.New("broken")
		for how, read := range map[string]func(r bufferedReader) error{
			"Read":       func(r bufferedReader) error { _, err := r.Read(make([]byte, 10)); return err },
			"Read large": func(r bufferedReader) error { _, err := r.Read(make([]byte, 10000)); return err },
			"ReadByte":   func(r bufferedReader) error { _, err := r.ReadByte(); return err },
			"ReadRune":   func(r bufferedReader) error { _, _, err := r.ReadRune(); return err },
			"ReadSlice":  func(r bufferedReader) error { _, err := r.ReadSlice('x'); return err },
			"ReadLine":   func(r bufferedReader) error { _, _, err := r.ReadLine(); return err },
			"ReadBytes":  func(r bufferedReader) error { _, err := r.ReadBytes('x'); return err },
			"ReadString": func(r bufferedReader) error { _, err := r.ReadString('x'); return err },
			"Peek":       func(r bufferedReader) error { _, err := r.Peek(1); return err },
			"Discard":    func(r bufferedReader) error { _, err := r.Discard(1); return err },
			"WriteTo":    func(r bufferedReader) error { _, err := r.WriteTo(plainWriter{io.Discard}); return err },
		} {
			if err := read(newReader(iotest.ErrReader(errBroken), 0)); err != errBroken {
				t.Errorf("%s: %v", how, err)
			}
			want := io.ErrNoProgress
			if strings.HasPrefix(how, "Read ") || how == "Read" {
				want = nil // Read asks once
			}
			if err := read(newReader(emptyReader{}, 0)); err != want {
				t.Errorf("%s of a source that gives nothing: %v, want %v", how, err, want)
			}
		}
	})
}

// emptyReader gives nothing and no error, for ever.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// An error that follows is not lost, and not seen again once it has been returned.
func TestReaderClearsAnErrorThatItReturned(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		errOnce := errors.New("once")
		r := newReader(&script{{"", errOnce}, {"good", nil}}, 0)
		if _, err := r.Read(nil); err != nil {
			t.Error("Read(nil) before anything:", err)
		}
		if _, err := r.ReadByte(); err != errOnce {
			t.Error("ReadByte:", err)
		}
		if _, err := r.Read(nil); err != nil {
			t.Error("Read(nil) after the error:", err)
		}
		if c, err := r.ReadByte(); c != 'g' || err != nil {
			t.Errorf("ReadByte: %q, %v", c, err)
		}
	})
}

// A script is a source that gives these results and then panics.
type script []struct {
	data string
	err  error
}

func (s *script) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		panic("read more often than was expected")
	}
	step := (*s)[0]
	*s = (*s)[1:]
	if len(step.data) > len(p) {
		panic(fmt.Sprintf("read of %d bytes, expected room for %d", len(p), len(step.data)))
	}
	return copy(p, step.data), step.err
}

func TestReaderPassesEmptyReadsOn(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		for _, size := range []int{100, 16} {
			r := newReader(&script{{"abc", nil}, {"", nil}, {"def", nil}, {"", io.EOF}}, size)
			for _, want := range []struct {
				data string
				err  error
			}{{"abc", nil}, {"", nil}, {"def", nil}, {"", io.EOF}} {
				p := make([]byte, 50)
				n, err := r.Read(p)
				if string(p[:n]) != want.data || err != want.err {
					t.Errorf("size %d: Read = %q, %v; want %q, %v", size, p[:n], err, want.data, want.err)
				}
			}
		}
	})
}

func TestReaderDoesNotReadMoreThanOnce(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		r := newReader(&script{{"0123456789", nil}}, 0)
		p := make([]byte, 5)
		if n, err := r.Read(p); n != 5 || err != nil || r.Buffered() != 5 {
			t.Fatalf("Read = %d, %v, %d buffered", n, err, r.Buffered())
		}
		if n, err := r.Read(make([]byte, 100)); n != 5 || err != nil {
			t.Errorf("Read = %d, %v; want what is buffered", n, err)
		}
		if n, err := r.Read(nil); n != 0 || err != nil {
			t.Errorf("Read(nil) = %d, %v", n, err)
		}
	})
}

func TestReaderRunes(t *testing.T) {
	bothReaders(t, func(t *testing.T, newReader maker) {
		for _, segments := range [][]string{
			{}, {""}, {"日", "本語"}, {"\xe6", "\x97\xa5\xe6", "\x9c\xac\xe8\xaa\x9e"}, {"Hello", ", ", "", "World", "!"},
			{"\xf0\x9f", "", "\x99", "\x82x"}, {"\xe6\x97"}, {"\xff", "\xfe\xc0\x80"}, {"\ufffd"},
		} {
			var src script
			for _, s := range segments {
				src = append(src, script{{s, nil}}...)
			}
			src = append(src, script{{"", io.EOF}, {"", io.EOF}}...)
			r, text := newReader(&src, 0), strings.Join(segments, "")
			for len(text) > 0 {
				want, wantSize := utf8.DecodeRuneInString(text)
				for range 2 { // read it, put it back, read it again
					if got, size, err := r.ReadRune(); got != want || size != wantSize || err != nil {
						t.Fatalf("%q: ReadRune = %q, %d, %v; want %q, %d", segments, got, size, err, want, wantSize)
					}
					if err := r.UnreadRune(); err != nil {
						t.Fatalf("%q: UnreadRune: %v", segments, err)
					}
				}
				r.ReadRune()
				text = text[wantSize:]
			}
			if _, _, err := r.ReadRune(); err != io.EOF {
				t.Errorf("%q: ReadRune at the end: %v", segments, err)
			}
		}
	})
}

package millrace_test

import (
	"bufio"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

func TestReaderHasEveryMethodOfBufio(t *testing.T) {
	checkMethods(t, "Reader", reflect.TypeFor[*millrace.Reader](), reflect.TypeFor[*bufio.Reader]())
}

// checkMethods checks that ours has all methods of theirs, with the same signatures. This includes
// the methods of later versions of Go. name is the name of both types without package and star.
func checkMethods(t *testing.T, name string, ours, theirs reflect.Type) {
	t.Helper()
	for want := range theirs.Methods() {
		got, ok := ours.MethodByName(want.Name)
		if !ok {
			t.Errorf("%s has no %s", name, want.Name)
			continue
		}
		// The parts after the receiver must be equal.
		_, a, _ := strings.Cut(got.Type.String(), name)
		if _, b, _ := strings.Cut(want.Type.String(), name); a != b {
			t.Errorf("%s is func(*%s%s, want func(*%s%s", want.Name, name, a, name, b)
		}
	}
}

// emptyReader always returns 0 bytes and no error.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// Each waiting call returns the error of its source, and gives up if the source returns nothing too
// often. There are two exceptions: Read asks once, and WriteTo leaves the source to a writer with a
// ReadFrom method.
func TestReaderReportsTheErrorOfItsSource(t *testing.T) {
	errBroken := errors.New("broken")
	for how, read := range waiting {
		r := millrace.NewReader(iotest.ErrReader(errBroken))
		if err := read(r); err != errBroken {
			t.Errorf("%s: %v, want %v", how, err, errBroken)
		}
		r.Reset(emptyReader{})
		want := io.ErrNoProgress
		if how == "Read" || how == "Read large" {
			want = nil
		}
		if how != "WriteTo" {
			if err := read(r); err != want {
				t.Errorf("%s of a source that gives nothing: %v, want %v", how, err, want)
			}
		}
		r.Release()
	}
}

func TestReaderDoesNotReadMoreThanOnce(t *testing.T) {
	r := millrace.NewReader(&script{{"0123456789", nil}})
	defer r.Release()
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
}

// After the methods that bufio lacks: the last byte of an integer can be unread. Bytes that were
// lent or moved cannot.
func TestReaderUnreadAfterOwnMethods(t *testing.T) {
	for name, test := range map[string]struct {
		call func(r *millrace.Reader)
		byte bool
	}{
		"ReadRange": {func(r *millrace.Reader) { r.ReadRange(1, func([]byte) {}) }, false},
		"ReadChain": {func(r *millrace.Reader) {
			var c millrace.Chain
			r.ReadChain(&c, 1)
			c.Release()
		}, false},
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
			t.Errorf("%s: UnreadRune: %v, want bufio.ErrInvalidUnreadRune", name, err)
		}
		if err := r.UnreadByte(); (err == nil) != test.byte {
			t.Errorf("%s: UnreadByte: %v, want success: %v", name, err, test.byte)
		}
		r.Release()
	}
}

// If the source returns ErrBufferFull itself, ReadLine does not take it for a long line that ends
// in "\r".
func TestReaderReadLineOfASourceThatIsFull(t *testing.T) {
	for _, text := range []string{"", "abc"} {
		r := millrace.NewReaderSize(&script{{text, bufio.ErrBufferFull}}, 16)
		if line, prefix, err := r.ReadLine(); string(line) != text || !prefix || err != nil {
			t.Errorf("%q, %v, %v; want %q, true", line, prefix, err, text)
		}
		r.Release()
	}
}

// ReadLine returns a '\r' to the buffer if it may belong to a "\r\n" across the limit. UnreadByte
// then replaces the byte before it, as in bufio.
func TestUnreadByteAfterCarriageReturn(t *testing.T) {
	const text = "fifteen letters\rand more"
	type reader interface {
		ReadLine() ([]byte, bool, error)
		UnreadByte() error
		io.Reader
	}
	for _, r := range []reader{
		bufio.NewReaderSize(strings.NewReader(text), 16),
		millrace.NewReaderSize(strings.NewReader(text), 16),
	} {
		line, prefix, err := r.ReadLine()
		if string(line) != "fifteen letters" || !prefix || err != nil {
			t.Errorf("%T: ReadLine returned %q, %v, %v", r, line, prefix, err)
		}
		if err := r.UnreadByte(); err != nil {
			t.Errorf("%T: UnreadByte: %v, want nil", r, err)
		}
		if rest, err := io.ReadAll(r); string(rest) != "\r\rand more" || err != nil {
			t.Errorf("%T: the rest is %q, %v", r, rest, err)
		}
		if r, ok := r.(*millrace.Reader); ok {
			r.Release()
		}
	}
}

func TestReaderReset(t *testing.T) {
	all := func(r io.Reader, want string) {
		t.Helper()
		if b, err := io.ReadAll(r); string(b) != want || err != nil {
			t.Errorf("read %q, %v, want %q", b, err, want)
		}
	}
	var r millrace.Reader
	defer r.Release()
	if r.Reset(strings.NewReader("the zero Reader")); r.Size() != 4096 {
		t.Errorf("Size is %d after Reset of the zero Reader", r.Size())
	}
	r.Read(make([]byte, 3))
	r.Reset(&script{{"lost", errors.New("lost, too")}})
	r.ReadByte()
	r.Reset(strings.NewReader("itself"))
	r.ReadByte()
	r.Reset(&r) // must do nothing, because r would read from itself
	all(&r, "tself")
}

func TestReaderSize(t *testing.T) {
	for size, want := range map[int]int{-5: 16, 1: 16, 16: 16, 17: 17, 1234: 1234,
		1 << 20: 1 << 20} {
		r := millrace.NewReaderSize(nil, size)
		if r.Size() != want {
			t.Errorf("Size() = %d for size %d, want %d", r.Size(), size, want)
		}
		if same := millrace.NewReaderSize(r, want); same != r {
			t.Error("a Reader of a Reader that is as large is a new one")
		}
		if larger := millrace.NewReaderSize(r, want+1); larger == r {
			t.Error("a Reader of a smaller Reader is the same one")
		}
	}
}

// badReaders return counts that Read must not return.
var badReaders = []readerFunc{
	func([]byte) (int, error) { return -1, nil },
	func(p []byte) (int, error) { return len(p) + 1, nil },
}

func TestReaderPanicsOnAnImpossibleCount(t *testing.T) {
	for name, read := range map[string]func(r *millrace.Reader){
		"Read":       func(r *millrace.Reader) { r.Read(make([]byte, 10)) },
		"Read large": func(r *millrace.Reader) { r.Read(make([]byte, 10000)) },
		"ReadByte":   func(r *millrace.Reader) { r.ReadByte() },
		"Peek":       func(r *millrace.Reader) { r.Peek(10) },
		"ReadChain":  func(r *millrace.Reader) { r.ReadChain(new(millrace.Chain), 10) },
		"ReadRange":  func(r *millrace.Reader) { r.ReadRange(10, func([]byte) {}) },
	} {
		for _, src := range badReaders {
			r := millrace.NewReader(src)
			wantPanic(t, name, "millrace: reader returned an impossible count from Read",
				func() { read(r) })
			r.Release()
		}
	}
}

func TestReaderWriteToAWriterThatMisbehaves(t *testing.T) {
	r := millrace.NewReader(strings.NewReader("abcdef"))
	defer r.Release()
	r.Peek(1)
	taking := func(n int) io.Writer {
		return writerFunc(func([]byte) (int, error) {
			return n, nil
		})
	}
	if n, err := r.WriteTo(taking(2)); n != 2 || err != io.ErrShortWrite {
		t.Errorf("WriteTo = %d, %v to a writer that takes 2 and says nothing", n, err)
	}
	wantPanic(t, "WriteTo", "impossible count", func() { r.WriteTo(taking(-1)) })
}

// A source that returns nothing is asked a hundred times, as in bufio.
func TestReaderGivesUpWhenBufioDoes(t *testing.T) {
	for empty := 97; empty <= 103; empty++ {
		source := func() io.Reader {
			// Read returns 4096 bytes at a time, then nothing several times, and then a few bytes
			// again.
			reads := 0
			return readerFunc(func(p []byte) (int, error) {
				switch reads++; {
				case reads <= 300:
					return min(len(p), 4096), nil
				case reads <= 300+empty:
					return 0, nil
				}
				return min(len(p), 5), io.EOF
			})
		}
		want, got := bufio.NewReader(source()), millrace.NewReader(source())
		for i := range 310 {
			m, wantErr := want.Discard(4096)
			if n, err := got.Discard(4096); n != m || err != wantErr {
				t.Errorf("%d empty reads, Discard %d = %d, %v, want %d, %v", empty, i, n, err, m,
					wantErr)
				break
			}
		}
		got.Release()
	}
}

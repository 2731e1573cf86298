package stackbuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace/stackbuf"
)

// sources are new ones that give s, each in its own way.
func sources(t testing.TB, s string) map[string]io.Reader {
	n := int64(len(s))
	from := func(s string) io.Reader { return strings.NewReader(s) }
	return map[string]io.Reader{
		"bytes.Reader":       bytes.NewReader([]byte(s)),
		"strings.Reader":     from(s),
		"bytes.Buffer":       bytes.NewBufferString(s),
		"Buffer":             stackbuf.NewBufferString(s),
		"file":               file(t, s),
		"pipe":               pipe(t, s),
		"nothing but Read":   only{from(s)},
		"a limit it has":     io.LimitReader(from(s), n),
		"a limit above":      io.LimitReader(from(s), n+100),
		"a limit below":      io.LimitReader(from(s+s), n),
		"a limit, unknown":   io.LimitReader(only{from(s + s)}, n),
		"two limits":         io.LimitReader(io.LimitReader(from(s+s), n), 1<<40),
		"section":            io.NewSectionReader(strings.NewReader("-"+s+s), 1, n),
		"one byte at a time": iotest.OneByteReader(from(s)),
		"half at a time":     iotest.HalfReader(from(s)),
		"io.EOF with data":   iotest.DataErrReader(from(s)),
		"bytes with io.EOF":  iotest.DataErrReader(iotest.OneByteReader(from(s))),
		"Len":                withLen{from(s), len(s)},
		"Size":               withSize{from(s), n},
		"Size of more":       withSize{iotest.HalfReader(from(s)), n + 999},
		"Len of less":        withLen{iotest.HalfReader(from(s)), len(s) / 2},
		"several":            io.MultiReader(from(s[:n/3]), from(s[n/3:])),
		"nothing at times":   &hesitant{Reader: from(s)},
	}
}

// file is an open file that holds s.
func file(t testing.TB, s string) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// pipe is the end of a pipe that s comes out of.
func pipe(t testing.TB, s string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(w, s)
		w.Close()
	}()
	t.Cleanup(func() { r.Close() })
	return r
}

// hesitant gives nothing and no error at every second Read.
type hesitant struct {
	io.Reader
	calls int
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.calls++; h.calls%2 == 1 {
		return 0, nil
	}
	return h.Reader.Read(p[:min(len(p), 1000)])
}

func TestReadFrom(t *testing.T) {
	for _, n := range sizes {
		for _, held := range []int{0, 10, 64, 65, 1000} {
			for what, src := range sources(t, text(n)) {
				b := stackbuf.NewBufferString("read" + text(held))
				b.Next(4)
				m, err := b.ReadFrom(src)
				if m != int64(n) || err != nil {
					t.Errorf("%s: ReadFrom of %d bytes = %d, %v", what, n, m, err)
				}
				check(t, fmt.Sprint(what, ", ", n, " behind ", held), b, text(held)+text(n))
				if stackbuf.Spilled(b) && held+n <= 60 && what != "Size of more" {
					t.Errorf("%s: %d bytes are on the heap", what, held+n)
				}
			}
		}
	}
}

// Into Buffers whose memory has been put to every use.
func TestReadFromIntoAnything(t *testing.T) {
	for _, held := range []int{0, 30, 64, 100, 600} {
		for what := range filled("") {
			for how, src := range sources(t, text(700)) {
				b := filled(text(held))[what]
				b.Next(held / 2)
				if m, err := b.ReadFrom(src); m != 700 || err != nil {
					t.Errorf("ReadFrom of %s = %d, %v", how, m, err)
				}
				check(t, how+" to "+what, b, text(held)[held/2:]+text(700))
			}
		}
	}
}

// What came before an error stays, and what came with it.
func TestReadFromFails(t *testing.T) {
	for _, n := range sizes {
		for what, src := range map[string]io.Reader{
			"after": io.MultiReader(strings.NewReader(text(n)), iotest.ErrReader(errBroken)),
			"with":  scripted(step{n, errBroken}),
			"Len":   withLen{scripted(step{n / 2, nil}, step{n - n/2, errBroken}), 2 * n},
			"limit": io.LimitReader(scripted(step{n, errBroken}), int64(n+1)),
		} {
			b := stackbuf.NewBufferString("held")
			if m, err := b.ReadFrom(src); m != int64(n) || err != errBroken {
				t.Errorf("an error %s %d bytes: ReadFrom = %d, %v", what, n, m, err)
			}
			check(t, fmt.Sprint("an error ", what, " ", n, " bytes"), b, "held"+text(n))
		}
	}
}

// io.EOF is the end. Neither what wraps it nor what comes close to it is.
func TestReadFromEndsWithEOFAlone(t *testing.T) {
	for _, want := range []error{io.ErrUnexpectedEOF, fmt.Errorf("wrapped: %w", io.EOF), iotest.ErrTimeout} {
		var b stackbuf.Buffer
		if n, err := b.ReadFrom(scripted(step{5, want})); n != 5 || err != want {
			t.Errorf("ReadFrom of a source that ends with %q = %d, %v", want, n, err)
		}
	}
	var b stackbuf.Buffer
	late := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc")))
	if n, err := b.ReadFrom(late); n != 1 || err != iotest.ErrTimeout {
		t.Errorf("ReadFrom of a source that times out = %d, %v", n, err)
	}
	check(t, "timed out", &b, "a")
}

// It goes on after an error, and after the end.
func TestReadFromAgain(t *testing.T) {
	var b stackbuf.Buffer
	src := scripted(step{40, errBroken}, step{40, io.EOF}, step{40, nil})
	for i, want := range []error{errBroken, nil, nil, nil} {
		if _, err := b.ReadFrom(src); err != want {
			t.Errorf("ReadFrom number %d: %v, want %v", i, err, want)
		}
	}
	check(t, "in the end", &b, text(120))
}

func TestReadFromFilesThatCannotBeRead(t *testing.T) {
	closed, writable := file(t, "contents"), file(t, "contents")
	closed.Close()
	writable, err := os.OpenFile(writable.Name(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writable.Close()
	directory, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	for what, f := range map[string]*os.File{
		"closed": closed, "write-only": writable, "directory": directory, "nil": nil,
	} {
		b := stackbuf.NewBufferString("held")
		if n, err := b.ReadFrom(f); n != 0 || err == nil {
			t.Errorf("%s: ReadFrom = %d, %v", what, n, err)
		}
		check(t, what, b, "held")
		if what == "directory" && b.Cap() != 64 {
			t.Errorf("the size of a directory is no size: Cap is %d", b.Cap())
		}
	}
	var b stackbuf.Buffer
	if _, err := b.ReadFrom(closed); !errors.Is(err, os.ErrClosed) {
		t.Errorf("ReadFrom of a closed file: %v", err)
	}
}

// Whatever the source does, what it gave before is in b, and b is in order.
func TestReadFromSourcesThatMisbehave(t *testing.T) {
	for _, good := range sizes {
		for what, last := range map[string]int{
			"panics": panics, "gives -1": -1, "gives the least": math.MinInt, "gives too much": beyond,
		} {
			for how, claim := range map[string]func(r io.Reader) io.Reader{
				"nothing":  func(r io.Reader) io.Reader { return r },
				"Len":      func(r io.Reader) io.Reader { return withLen{r, 2000} },
				"Size":     func(r io.Reader) io.Reader { return withSize{r, int64(good)} },
				"lie":      func(r io.Reader) io.Reader { return withLen{r, good / 2} },
				"negative": func(r io.Reader) io.Reader { return withSize{r, -1} },
			} {
				b := stackbuf.NewBufferString("held")
				src := claim(scripted(step{good, nil}, step{last, nil}))
				result := outcome(func() string { return fmt.Sprint(b.ReadFrom(src)) })
				if !strings.HasPrefix(result, "panic: ") {
					t.Errorf("a source that %s after %d bytes: ReadFrom = %s", what, good, result)
				}
				check(t, fmt.Sprint(what, " after ", good, ", said ", how), b, "held"+text(good))
				b.WriteString("on")
				check(t, fmt.Sprint(what, " after ", good, ", said ", how), b, "held"+text(good)+"on")
			}
		}
	}
}

// A source may use Buffers of its own while it is read.
func TestReadFromWithinReadFrom(t *testing.T) {
	depth := 0
	var src readerFunc
	src = func(p []byte) (int, error) {
		n := copy(p, text(depth+1))
		if depth++; depth < 5 {
			var b stackbuf.Buffer
			b.ReadFrom(io.LimitReader(src, int64(depth)))
		}
		if got := string(p[:n]); got != text(n) {
			t.Errorf("what was given became %q", got)
		}
		return n, io.EOF
	}
	var b stackbuf.Buffer
	b.ReadFrom(src)
	check(t, "outside", &b, text(1))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Buffer itself is a source that behaves.
func TestBufferAsReader(t *testing.T) {
	for _, n := range sizes {
		if n > 5000 {
			continue // TestReader takes its time
		}
		for what, b := range filled(text(n)) {
			if err := iotest.TestReader(b, []byte(text(n))); err != nil {
				t.Errorf("%s, %d: %v", what, n, err)
			}
		}
	}
}

func TestReadFromBorrows(t *testing.T) {
	for _, n := range sizes {
		p := []byte(text(n))
		var b stackbuf.Buffer
		b.ReadFrom(bytes.NewReader(p))
		clear(p)
		check(t, fmt.Sprint(n), &b, text(n))
	}
}

// A source that writes to more than it says, or panics, leaves nothing for another Buffer to see.
func TestReadFromShowsNobodyElsesBytes(t *testing.T) {
	fill := func(p []byte) {
		for i := range p {
			p[i] = 's'
		}
	}
	for name, untidy := range map[string]readFunc{
		"says one byte": func(p []byte) (int, error) { fill(p); return 1, io.EOF },
		"panics":        func(p []byte) (int, error) { fill(p); panic("the source panics") },
	} {
		for range 10 { // the next may get another scratch
			var a, b stackbuf.Buffer
			func() {
				defer func() { _ = recover() }()
				_, _ = a.ReadFrom(untidy)
			}()
			_, _ = b.ReadFrom(readFunc(func(p []byte) (int, error) { return 40, io.EOF }))
			if bytes.ContainsRune(b.Bytes(), 's') {
				t.Fatalf("%s: another Buffer has %q", name, b.Bytes())
			}
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

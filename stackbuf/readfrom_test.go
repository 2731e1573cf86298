package stackbuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
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
				if stackbuf.Spilled(b) && held+n <= 60 {
					t.Errorf("%s: %d bytes are on the heap", what, held+n)
				}
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

// A source that misbehaves leaves b in order, with the bytes that it gave before.
func TestReadFromSourcesThatMisbehave(t *testing.T) {
	for _, good := range sizes {
		for what, last := range map[string]int{
			"panics": panics, "gives -1": -1, "gives the least": math.MinInt, "gives too much": beyond,
		} {
			for how, claim := range map[string]func(r io.Reader) io.Reader{
				"nothing":  func(r io.Reader) io.Reader { return r },
				"Len":      func(r io.Reader) io.Reader { return withLen{r, 2000} },
				"lie":      func(r io.Reader) io.Reader { return withLen{r, good / 2} },
				"negative": func(r io.Reader) io.Reader { return withLen{r, -1} },
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

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A source that writes to more than it says, or panics, leaves nothing for another Buffer to see.
func TestReadFromShowsNoOtherBuffersBytes(t *testing.T) {
	fill := func(p []byte) {
		for i := range p {
			p[i] = 's'
		}
	}
	for name, untidy := range map[string]readerFunc{
		"says one byte": func(p []byte) (int, error) { fill(p); return 1, io.EOF },
		"panics":        func(p []byte) (int, error) { fill(p); panic("the source panics") },
	} {
		for range 10 { // the next may get another scratch
			var a, b stackbuf.Buffer
			func() {
				defer func() { _ = recover() }()
				_, _ = a.ReadFrom(untidy)
			}()
			_, _ = b.ReadFrom(readerFunc(func(p []byte) (int, error) { return 40, io.EOF }))
			if bytes.ContainsRune(b.Bytes(), 's') {
				t.Fatalf("%s: another Buffer has %q", name, b.Bytes())
			}
		}
	}
}

// Those whose size is certain, at any size: the memory has their size class.
func TestReadFromOfCertainSize(t *testing.T) {
	for _, n := range []int{65, 512, 1000, 4096, 100_000, 1 << 20, 3 << 20} {
		s := text(n)
		behind, f := strings.NewReader(s+s), file(t, s+s)
		behind.Seek(int64(n), io.SeekStart)
		f.Seek(int64(n), io.SeekStart)
		half, most := file(t, s+s), fitting(n+4)
		for what, src := range map[string]io.Reader{
			"bytes.Reader":   bytes.NewReader([]byte(s)),
			"strings.Reader": behind,
			"bytes.Buffer":   bytes.NewBufferString(s),
			"Buffer":         stackbuf.NewBufferString(s),
			"file":           f,
			"limited":        io.LimitReader(strings.NewReader(s+s), int64(n)),
			"limited above":  io.LimitReader(strings.NewReader(s), 1<<40),
			"limited file":   io.LimitReader(half, int64(n)),
			"limited twice":  io.LimitReader(io.LimitReader(bytes.NewReader([]byte(s)), 1<<40), 1<<41),
		} {
			b := stackbuf.NewBufferString("held")
			if _, err := b.ReadFrom(src); err != nil || b.Len() != n+4 {
				t.Errorf("%s: %d of %d bytes, %v", what, b.Len(), n+4, err)
			}
			if b.Cap() > most {
				t.Errorf("%s of %d: the memory has %d bytes, want at most %d", what, n, b.Cap(), most)
			}
		}
	}
}

// A source that does not tell makes the memory double, as Write does, and io.EOF costs none: it is the same whether it
// comes with the last bytes or after them.
func TestReadFromUnknownDoesNotGrowForEOF(t *testing.T) {
	for _, n := range append([]int{256, 1024, 2048, 8192, 16384, 1 << 20}, sizes...) {
		for _, piece := range []int{1, 64, 500, 512, 1000, 4096, 5000, 1 << 20} {
			if n > 100*piece && n > 5000 {
				continue
			}
			var steps []step
			for left := n; left > piece; left -= piece {
				steps = append(steps, step{piece, nil})
			}
			steps = append(steps, step{n - len(steps)*piece, io.EOF})
			var with, after stackbuf.Buffer
			with.ReadFrom(scripted(slices.Clone(steps)...))
			steps[len(steps)-1].err = nil
			after.ReadFrom(scripted(steps...))
			check(t, fmt.Sprint(n, " by ", piece, ", io.EOF with the last"), &with, text(n))
			check(t, fmt.Sprint(n, " by ", piece, ", io.EOF after the last"), &after, text(n))
			if with.Cap() != after.Cap() {
				t.Errorf("%d by %d: %d bytes of memory when io.EOF comes with the last bytes, and %d when it comes after them",
					n, piece, with.Cap(), after.Cap())
			}
			if after.Cap() > max(64, 5*n/2) {
				t.Errorf("%d by %d: the memory has %d bytes", n, piece, after.Cap())
			}
		}
	}
}

// Many small sources cost no more than as many writes: the memory doubles.
func TestReadFromManySmallSources(t *testing.T) {
	var b stackbuf.Buffer
	moves := 0
	for size := b.Cap(); b.Len() < 1<<20; {
		b.ReadFrom(strings.NewReader("0123456789"))
		if b.Cap() != size {
			moves++
			size = b.Cap()
		}
	}
	if moves > 20 {
		t.Errorf("the memory grew %d times to %d bytes", moves, b.Cap())
	}
}

// The files that the kernel makes up say that they have nothing, and have something.
func TestReadFromProc(t *testing.T) {
	for _, name := range []string{"/proc/filesystems", "/proc/version", "/proc/self/limits"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Skip("this is no Linux: ", err)
		}
		for what, limit := range map[string]int64{"alone": 0, "with a limit": 1 << 40} {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			var src io.Reader = f
			if limit > 0 {
				src = io.LimitReader(f, limit)
			}
			var b stackbuf.Buffer
			if _, err := b.ReadFrom(src); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			check(t, name+" "+what, &b, string(want))
			f.Close()
		}
	}
}

// The limit of an io.LimitedReader and the Len of a foreign type may be a peer's word: up to 64 KiB the memory is taken
// once, to fit, and more only as bytes arrive. A claim of too little or too much costs memory and no byte.
func TestClaims(t *testing.T) {
	for what, claim := range map[string]func(r io.Reader, n int) io.Reader{
		"Len":   func(r io.Reader, n int) io.Reader { return withLen{r, n} },
		"limit": func(r io.Reader, n int) io.Reader { return io.LimitReader(only{r}, int64(n)) },
	} {
		for _, n := range []int{0, 1, 65, 1000, 70_000, 1 << 20} {
			for _, claimed := range []int{math.MinInt, -1, 0, n / 2, n, n + 1, n + 1000, 1 << 30, math.MaxInt} {
				if what == "limit" && claimed < n {
					continue
				}
				var b stackbuf.Buffer
				m, err := b.ReadFrom(claim(iotest.HalfReader(strings.NewReader(text(n))), claimed))
				if m != int64(n) || err != nil {
					t.Errorf("%s of %d: ReadFrom of %d = %d, %v", what, claimed, n, m, err)
				}
				check(t, fmt.Sprint(what, " of ", claimed, " that has ", n), &b, text(n))
				most := max(64, 5*n/2, fitting(min(max(claimed, 0), stackbuf.MaxClaim)))
				if claimed == n && n <= stackbuf.MaxClaim {
					most = max(64, fitting(n))
				}
				if b.Cap() > most {
					t.Errorf("%s of %d that has %d: the memory has %d bytes, want at most %d", what, claimed, n, b.Cap(), most)
				}
			}
		}
	}
}

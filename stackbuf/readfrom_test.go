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

// A source returns s in one of several ways. Its reported length may be wrong.
type source struct {
	name string
	of   func(s string, claim int) io.Reader
}

// sources are all kinds of source. Fuzz inputs refer to the entries by index: add new ones at the
// end.
var sources = []source{
	{"bytes.Reader", func(s string, _ int) io.Reader { return bytes.NewReader([]byte(s)) }},
	{"strings.Reader", func(s string, _ int) io.Reader { return strings.NewReader(s) }},
	{"bytes.Buffer", func(s string, _ int) io.Reader { return bytes.NewBufferString(s) }},
	{"Buffer, partly read", func(s string, _ int) io.Reader {
		b := stackbuf.NewBufferString("-" + s)
		b.ReadByte()
		return b
	}},
	{"nothing but Read", func(s string, _ int) io.Reader { return only{strings.NewReader(s)} }},
	{"limit", func(s string, claim int) io.Reader {
		return io.LimitReader(strings.NewReader(s), int64(claim))
	}},
	{"limit, unknown", func(s string, claim int) io.Reader {
		return io.LimitReader(only{strings.NewReader(s)}, int64(claim))
	}},
	{"two limits", func(s string, claim int) io.Reader {
		return io.LimitReader(io.LimitReader(strings.NewReader(s), int64(claim)), 1<<40)
	}},
	{"section", func(s string, claim int) io.Reader {
		return io.NewSectionReader(strings.NewReader(s), int64(claim/2), int64(claim))
	}},
	{"Len", func(s string, claim int) io.Reader { return withLen{strings.NewReader(s), claim} }},
	{"one byte at a time", func(s string, _ int) io.Reader {
		return iotest.OneByteReader(strings.NewReader(s))
	}},
	{"io.EOF with data", func(s string, _ int) io.Reader {
		return iotest.DataErrReader(iotest.HalfReader(strings.NewReader(s)))
	}},
	{"nothing at times", func(s string, _ int) io.Reader {
		return &hesitant{Reader: strings.NewReader(s)}
	}},
	{"an error behind", func(s string, _ int) io.Reader {
		return io.MultiReader(strings.NewReader(s), iotest.ErrReader(errBroken))
	}},
	{"an error with data", ending(step{50, errBroken})},
	{"a wrapped io.EOF", ending(step{0, fmt.Errorf("wrapped: %w", io.EOF)})},
	{"a negative count", ending(step{-1, nil})},
	{"a negative count and io.EOF", ending(step{math.MinInt, io.EOF})},
	{"too many", ending(step{beyond, nil})},
	{"a panic", ending(step{panics, nil})},
}

// ending returns a source that reports a length and ends with the step last.
func ending(last step) func(s string, claim int) io.Reader {
	return func(s string, claim int) io.Reader {
		return withLen{scripted(step{len(s), nil}, last), claim}
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

// pipe returns the reading end of a pipe that contains s.
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

// hesitant returns 0 bytes and no error from every second Read.
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

// Each source is read with each length that it may report, after contents of each size. The result
// equals bytes.Buffer's, and is not on the heap earlier than necessary.
func TestReadFrom(t *testing.T) {
	all := append(slices.Clone(sources),
		source{"file", func(s string, _ int) io.Reader { return file(t, s) }},
		source{"pipe", func(s string, _ int) io.Reader { return pipe(t, s) }})
	for _, n := range sizes {
		for _, held := range []int{0, 10, 64, 65, 1000} {
			for _, src := range all {
				for _, claim := range []int{n, n / 2, n + 2000, -1} {
					if claim != n && held%64 != 0 {
						continue
					}
					b, o := stackbuf.NewBufferString("read"+text(held)),
						bytes.NewBufferString("read"+text(held))
					b.Next(4)
					o.Next(4)
					got := outcome(func() string {
						return fmt.Sprint(b.ReadFrom(src.of(text(n), claim)))
					})
					want := outcome(func() string {
						return fmt.Sprint(o.ReadFrom(src.of(text(n), claim)))
					})
					what := fmt.Sprintf("%s, %d behind %d, said to be %d", src.name, n, held, claim)
					if got != want {
						t.Errorf("%s: %s, want %s", what, got, want)
					}
					check(t, what, b, o.String())
					if stackbuf.Spilled(b) && held+max(o.Len(), claim) <= 60 {
						t.Errorf("%s: %d bytes are on the heap", what, b.Len())
					}
				}
			}
		}
	}
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
			t.Errorf("%s: ReadFrom = %d, %v, want an error", what, n, err)
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

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A source that writes beyond its reported count, or panics, leaves nothing that another Buffer can
// see.
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
		for range 10 { // the next one may get another scratch buffer
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

// If the source's length is certain, the memory has the size class of that length.
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
			"limited twice": io.LimitReader(io.LimitReader(bytes.NewReader([]byte(s)), 1<<40),
				1<<41),
		} {
			b := stackbuf.NewBufferString("held")
			if _, err := b.ReadFrom(src); err != nil || b.Len() != n+4 {
				t.Errorf("%s: %d of %d bytes, %v", what, b.Len(), n+4, err)
			}
			if b.Cap() > most {
				t.Errorf("%s of %d: the memory has %d bytes, want at most %d", what, n, b.Cap(),
					most)
			}
		}
	}
}

// If the source does not report a length, the memory doubles, as with Write. io.EOF costs no
// memory, whether it comes with the last bytes or after them.
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

// Files in /proc report a size of 0, but have contents.
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
				t.Errorf("%s: ReadFrom: %v, want nil", name, err)
			}
			check(t, name+" "+what, &b, string(want))
			f.Close()
		}
	}
}

// The limit of an io.LimitedReader and the Len of an unknown type may come from a peer. Up to 64
// KiB, the memory is allocated once; beyond that, only as bytes arrive. A wrong length costs
// memory, but no byte.
func TestClaims(t *testing.T) {
	for what, claim := range map[string]func(r io.Reader, n int) io.Reader{
		"Len":   func(r io.Reader, n int) io.Reader { return withLen{r, n} },
		"limit": func(r io.Reader, n int) io.Reader { return io.LimitReader(only{r}, int64(n)) },
	} {
		for _, n := range []int{0, 1, 65, 1000, 70_000, 1 << 20} {
			for _, claimed := range []int{math.MinInt, -1, 0, n / 2, n, n + 1, n + 1000, 1 << 30,
				math.MaxInt} {
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
					t.Errorf("%s of %d that has %d: the memory has %d bytes, want at most %d", what,
						claimed, n, b.Cap(), most)
				}
			}
		}
	}
}

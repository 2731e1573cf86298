package stackbuf_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace/stackbuf"
)

// A watch is a source that notes how the memory of b changes from one Read to the next.
type watch struct {
	io.Reader
	b     *stackbuf.Buffer
	sizes []int
}

func (w *watch) Read(p []byte) (int, error) {
	w.note()
	return w.Reader.Read(p)
}

func (w *watch) note() {
	if n := w.b.Cap(); len(w.sizes) == 0 || w.sizes[len(w.sizes)-1] != n {
		w.sizes = append(w.sizes, n)
	}
}

// watched is ReadFrom, with the sizes that b's memory had in the course of it.
func watched(b *stackbuf.Buffer, src io.Reader, known func(r io.Reader) io.Reader) (sizes []int, err error) {
	w := &watch{Reader: src, b: b}
	w.note()
	_, err = b.ReadFrom(known(w))
	w.note()
	return w.sizes, err
}

// tellers are sources that tell their size, which n is.
func tellers(n int64) map[string]func(r io.Reader) io.Reader {
	all := map[string]func(r io.Reader) io.Reader{
		"Len":        func(r io.Reader) io.Reader { return withLen{r, int(n)} },
		"Size":       func(r io.Reader) io.Reader { return withSize{r, n} },
		"Len, limit": func(r io.Reader) io.Reader { return io.LimitReader(withLen{r, int(n + 9999)}, n) },
	}
	if n > 0 { // else it may mean anything
		all["limit, Size"] = func(r io.Reader) io.Reader { return io.LimitReader(withSize{r, n}, n+9999) }
	}
	if n <= stackbuf.BelieveLimit {
		all["limit"] = func(r io.Reader) io.Reader { return io.LimitReader(r, n) }
	}
	return all
}

// A source that tells its size makes b grow once, to fit, however it gives what it has.
func TestReadFromGrowsOnceToFit(t *testing.T) {
	for _, n := range append([]int{200_000, 1 << 20}, sizes...) {
		for what, known := range tellers(int64(n)) {
			for pace, slow := range paces {
				if n > 10_000 && pace == "bytes" {
					continue
				}
				for _, held := range []int{0, 1, 64, 100} {
					b := stackbuf.NewBufferString(text(held))
					before := b.Cap()
					sizes, err := watched(b, slow(strings.NewReader(text(n))), known)
					if err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%s, %d by %s behind %d", what, n, pace, held)
					check(t, what, b, text(held)+text(n))
					switch {
					case held+n <= before && len(sizes) != 1:
						t.Errorf("%s: the sizes were %d, want no growth", what, sizes)
					case len(sizes) > 2:
						t.Errorf("%s: the sizes were %d, want one growth", what, sizes)
					case held <= n && b.Cap() > max(before, fitting(held+n)):
						t.Errorf("%s: the memory has %d bytes, want at most %d", what, b.Cap(), fitting(held+n))
					}
				}
			}
		}
	}
}

var paces = map[string]func(r io.Reader) io.Reader{
	"all":   func(r io.Reader) io.Reader { return r },
	"bytes": iotest.OneByteReader,
	"halfs": iotest.HalfReader,
	"eof":   iotest.DataErrReader,
}

// Those whose size is certain, at any size: the memory has their size class.
func TestReadFromOfCertainSize(t *testing.T) {
	for _, n := range []int{65, 512, 1000, 4096, 100_000, 1 << 20, stackbuf.BelieveSize + 1<<20} {
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
			if n > stackbuf.BelieveSize && strings.Contains(what, "limited ") {
				continue // so much takes its time
			}
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

// A source that is known to be empty needs no memory, whatever may be read of it.
func TestReadFromOfNothingTakesNothing(t *testing.T) {
	end, last := strings.NewReader("read"), file(t, "read")
	end.Seek(0, io.SeekEnd)
	last.Seek(100, io.SeekStart)
	for what, src := range map[string]io.Reader{
		"strings.Reader":          end,
		"bytes.Reader":            bytes.NewReader(nil),
		"file":                    last,
		"Buffer":                  new(stackbuf.Buffer),
		"no limit":                io.LimitReader(only{strings.NewReader("x")}, 0),
		"a negative limit":        io.LimitReader(only{strings.NewReader("x")}, -1),
		"limited strings.Reader":  io.LimitReader(end, 1<<40),
		"limited bytes.Reader":    io.LimitReader(bytes.NewReader(nil), 1<<40),
		"limited Buffer":          io.LimitReader(new(stackbuf.Buffer), 1<<40),
		"limited file at its end": io.LimitReader(last, 1<<40),
		"section":                 io.NewSectionReader(end, 4, 0),
	} {
		var b stackbuf.Buffer
		if n, err := b.ReadFrom(src); n != 0 || err != nil {
			t.Errorf("%s: ReadFrom = %d, %v", what, n, err)
		}
		if b.Cap() != 64 {
			t.Errorf("%s: nothing needs %d bytes", what, b.Cap())
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

// Memory that is just enough stays.
func TestReadFromUsesTheRoomThatThereIs(t *testing.T) {
	for _, room := range []int{10, 64, 65, 511, 512, 513, 4096, 4097, 10_000} {
		for pace, slow := range paces {
			for how, known := range map[string]func(r io.Reader) io.Reader{
				"unknown":  func(r io.Reader) io.Reader { return only{r} },
				"Len":      func(r io.Reader) io.Reader { return withLen{r, room} },
				"too few":  func(r io.Reader) io.Reader { return withLen{r, room / 2} },
				"negative": func(r io.Reader) io.Reader { return withLen{r, -room} },
			} {
				p := make([]byte, 5, 5+room)
				b := stackbuf.NewBuffer(p)
				if _, err := b.ReadFrom(known(slow(strings.NewReader(text(room))))); err != nil {
					t.Fatal(err)
				}
				if got := string(p[5 : 5+room]); got != text(room) || b.Cap() != 5+room {
					t.Errorf("%s, %d by %s: they are not where there was room for them, Cap is %d", how, room, pace, b.Cap())
				}
			}
		}
	}
}

// When there is less room than ReadFrom would like to offer, the source is not offered less than MinRead.
func TestReadFromOffersMinRead(t *testing.T) {
	for room := range 600 {
		b := stackbuf.NewBuffer(make([]byte, 10, 10+room))
		src := readerFunc(func(p []byte) (int, error) {
			if len(p) < stackbuf.MinRead {
				t.Errorf("with room for %d the source is offered %d bytes", room, len(p))
			}
			return 0, io.EOF
		})
		b.ReadFrom(src)
		b.ReadFrom(withLen{src, 1000})
		b.ReadFrom(withLen{src, 1})
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

// A queue whose length stays the same needs no more memory than at the start, whatever goes through it.
func TestReadFromIntoAQueueDoesNotGrow(t *testing.T) {
	for _, held := range []int{0, 1, 30, 63, 96, 1000} {
		for _, n := range []int64{1, 50, 97, 600, 1200} {
			for what, known := range map[string]func(r io.Reader) io.Reader{
				"unknown": func(r io.Reader) io.Reader { return only{r} },
				"Len":     func(r io.Reader) io.Reader { return withLen{r, int(n)} },
				"Size":    func(r io.Reader) io.Reader { return withSize{r, n} },
				"limit":   func(r io.Reader) io.Reader { return io.LimitReader(r, n) },
			} {
				var b stackbuf.Buffer
				b.WriteString(text(held))
				src := strings.NewReader(text(int(n)))
				for range 2000 {
					src.Seek(0, io.SeekStart)
					b.ReadFrom(known(src))
					b.Next(int(n))
				}
				if most := 4*(held+int(n)) + 64; b.Cap() > most {
					t.Errorf("%s: a queue of %d bytes, read by %d, has %d bytes of memory, want at most %d",
						what, held, n, b.Cap(), most)
				}
			}
		}
	}
}

// As long as no more than 64 bytes are held at once, the array does for what sources give, too.
func TestReadFromUsesTheArrayAgain(t *testing.T) {
	for _, known := range []bool{true, false} {
		var b stackbuf.Buffer
		var want bytes.Buffer
		for i := range 500 {
			s := text(i * 7 % 33)
			var src io.Reader = strings.NewReader(s)
			if !known {
				src = only{src}
			}
			b.ReadFrom(src)
			want.WriteString(s)
			check(t, fmt.Sprint("known: ", known), &b, want.String())
			take := max(0, want.Len()-i*5%32)
			b.Next(take)
			want.Next(take)
			if stackbuf.Spilled(&b) {
				t.Fatalf("in round %d, known: %t, the contents are on the heap", i, known)
			}
		}
	}
}

// A slice that is too small for the contents makes way for the array, as it does for Write.
func TestReadFromIntoALittleSlice(t *testing.T) {
	for _, size := range []int{0, 10, 40} {
		for what, src := range map[string]io.Reader{
			"known":   strings.NewReader(text(64 - size)),
			"unknown": only{strings.NewReader(text(64 - size))},
		} {
			b := stackbuf.NewBuffer(slices.Clip([]byte(text(size))))
			b.ReadFrom(src)
			check(t, what, b, text(size)+text(64-size))
			if stackbuf.Spilled(b) {
				t.Errorf("%s: 64 bytes, %d of them from NewBuffer, are on the heap, in %d", what, size, b.Cap())
			}
		}
	}
}

// A Buffer's own contents may be what is read, as they may be written: bytes.Buffer can do that, too.
func TestReadingItsOwnBytes(t *testing.T) {
	for _, size := range []int{64, 100, 600, 1200} {
		for read := 0; read <= size; read += 7 {
			for n := 0; n <= size-read; n += 7 {
				b, o := new(stackbuf.Buffer), new(bytes.Buffer)
				b.WriteString(text(size))
				o.WriteString(text(size))
				b.Next(read)
				o.Next(read)
				b.Truncate(n)
				o.Truncate(n)
				b.ReadFrom(bytes.NewReader(b.Bytes()))
				o.ReadFrom(bytes.NewReader(o.Bytes()))
				if b.String() != o.String() {
					t.Fatalf("%d bytes behind %d became %q, want %q", n, read, b.String(), o.String())
				}
			}
		}
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

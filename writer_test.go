package millrace_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

func TestWriterHasEveryMethodOfBufio(t *testing.T) {
	checkMethods(t, "Writer", reflect.TypeFor[*millrace.Writer](), reflect.TypeFor[*bufio.Writer]())
}

var errSink = errors.New("the sink is full")

// A limitedSink accepts room bytes. Then Write fails, or accepts fewer bytes without an error if
// short is set.
type limitedSink struct {
	got   bytes.Buffer
	room  int
	short bool
}

func (s *limitedSink) Write(p []byte) (int, error) {
	n := min(len(p), s.room)
	s.room -= n
	s.got.Write(p[:n])
	if n < len(p) && !s.short {
		return n, errSink
	}
	return n, nil
}

// A readerFromSink is a limitedSink with the methods that a Writer looks for.
type readerFromSink struct{ *limitedSink }

func (s readerFromSink) ReadFrom(src io.Reader) (int64, error) {
	p, err := io.ReadAll(src)
	n, err2 := s.Write(p)
	return int64(n), errors.Join(err, err2)
}

func (s readerFromSink) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

// A writing is a call of both Writers with the same bytes. It returns the results of both calls.
type writing struct {
	name string
	call func(ours *millrace.Writer, theirs *bufio.Writer, p []byte) (got, want []any)
}

func results(v ...any) []any { return v }

var writings = []writing{
	{"Write", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		return results(w.Write(p)), results(b.Write(p))
	}},
	{"WriteString", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		return results(w.WriteString(string(p))), results(b.WriteString(string(p)))
	}},
	{"WriteByte", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		return results(w.WriteByte(byte(len(p)))), results(b.WriteByte(byte(len(p))))
	}},
	{"WriteRune", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		r := rune(len(p) * 37)
		return results(w.WriteRune(r)), results(b.WriteRune(r))
	}},
	{"AvailableBuffer", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		return results(w.Write(append(w.AvailableBuffer(), p...))),
			results(b.Write(append(b.AvailableBuffer(), p...)))
	}},
	{"ReadFrom", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		return results(w.ReadFrom(iotest.OneByteReader(bytes.NewReader(p)))),
			results(b.ReadFrom(iotest.OneByteReader(bytes.NewReader(p))))
	}},
	{"ReadFrom failing", func(w *millrace.Writer, b *bufio.Writer, p []byte) ([]any, []any) {
		src := func() io.Reader {
			return io.MultiReader(bytes.NewReader(p), iotest.ErrReader(io.ErrClosedPipe))
		}
		return results(w.ReadFrom(src())), results(b.ReadFrom(src()))
	}},
	{"Flush", func(w *millrace.Writer, b *bufio.Writer, _ []byte) ([]any, []any) {
		return results(w.Flush()), results(b.Flush())
	}},
}

// TestWriterAgainstBufio runs random programs on a Writer and on a bufio.Writer.
func TestWriterAgainstBufio(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range rounds(1000) {
		pairWriters(t, rng.IntN(300), rng.IntN(5000), rng.IntN(2) == 0, randomProgram(rng))
		if t.Failed() {
			return
		}
	}
}

// FuzzWriter lets the fuzzer write the program.
func FuzzWriter(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 8 {
		f.Add(uint8(i*30), uint16(i*500), i%2 == 0, []byte(randomProgram(rng)[:20]))
	}
	f.Fuzz(func(t *testing.T, size uint8, room uint16, readsFrom bool, program []byte) {
		if len(program) < 1<<10 {
			pairWriters(t, int(size), int(room), readsFrom, program)
		}
	})
}

// pairWriters runs the program on a Writer and a bufio.Writer of the same size. Their sinks accept
// room bytes, and have more methods than Write if readsFrom is set.
func pairWriters(t *testing.T, size, room int, readsFrom bool, program program) {
	t.Helper()
	size = max(size, 4) // with less, bufio divides a character into two writes
	pool := newPool(t)
	one, two := &limitedSink{room: room}, &limitedSink{room: room}
	var dst, dst2 io.Writer = one, two
	if readsFrom {
		dst, dst2 = readerFromSink{one}, readerFromSink{two}
	}
	w, b := pool.NewWriter(dst, size), bufio.NewWriterSize(dst2, size)
	defer w.Release()
	text := letters(1 << 10)
	for len(program) > 0 {
		op := writings[int(program.choose())%len(writings)]
		p := text[:int(program.choose())<<(program.choose()%3)]
		got, want := op.call(w, b, p)
		got = append(got, w.Buffered(), w.Available(), w.Size(), one.got.Len())
		want = append(want, b.Buffered(), b.Available(), b.Size(), two.got.Len())
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s of %d bytes with size %d, room %d, %t:\n got %v\nwant %v", op.name,
				len(p), size, room, readsFrom, got, want)
		}
		if used := pool.Stats().InUseBlocks; w.Buffered() == 0 && used > 0 && op.name == "Flush" {
			t.Fatalf("%d blocks in use after Flush", used)
		}
	}
	if !bytes.Equal(one.got.Bytes(), two.got.Bytes()) {
		t.Errorf("size %d, room %d, %t: sent %.200q, want %.200q", size, room, readsFrom,
			one.got.Bytes(), two.got.Bytes())
	}
}

// TestWriteChainKeepsOrder writes bytes and Chains in random order to a sink that fails at any
// place.
func TestWriteChainKeepsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	text := letters(1 << 10)
	for range rounds(1000) {
		pool := newPool(t)
		out := &limitedSink{room: rng.IntN(10_000)}
		w := pool.NewWriter(out, 1+rng.IntN(600))
		var want []byte
		var err error
		for range 1 + rng.IntN(30) {
			p := text[:rng.IntN(1+rng.IntN(len(text)))]
			switch rng.IntN(5) {
			case 0:
				err = w.Flush()
				if used := pool.Stats().InUseBlocks; used > 0 {
					t.Fatalf("%d blocks in use after Flush = %v", used, err)
				}
				p = nil
			case 1, 2:
				var c millrace.Chain
				addBlocks(pool, &c, p, 1+rng.IntN(300))
				err = w.WriteChain(&c)
				if c.Len() > 0 {
					t.Fatalf("WriteChain left %d bytes", c.Len())
				}
			case 3:
				_, err = w.Write(p)
			case 4:
				_, err = w.Write(append(w.AvailableBuffer(), p...))
			}
			want = append(want, p...)
			if err != nil {
				break
			}
			if w.Buffered() > w.Size() || w.Available() != w.Size()-w.Buffered() ||
				cap(w.AvailableBuffer()) != w.Available() {
				t.Fatalf("size %d, %d bytes buffered, %d available, a buffer of %d", w.Size(),
					w.Buffered(), w.Available(), cap(w.AvailableBuffer()))
			}
		}
		if err == nil {
			err = w.Flush()
		}
		got := out.got.Bytes()
		if !bytes.HasPrefix(want, got) || err == nil && len(got) < len(want) {
			t.Fatalf("sent %d bytes %.100q, want %d bytes %.100q", len(got), got, len(want), want)
		}
		if used := pool.Stats().InUseBlocks; used > 0 {
			t.Fatalf("%d blocks in use at the end, after %v", used, err)
		}
		if err == nil {
			continue
		}
		var c millrace.Chain
		addBlocks(pool, &c, text, 100)
		for what, again := range map[string]error{
			"Write": second(w.Write(text)), "Flush": w.Flush(), "WriteChain": w.WriteChain(&c),
		} {
			if again != err || c.Len() > 0 {
				t.Fatalf("%s after the error = %v, want %v", what, again, err)
			}
		}
	}
}

// An empty Chain needs no memory.
func TestWriteChainOfNothing(t *testing.T) {
	pool := newPool(t)
	w := pool.NewWriter(io.Discard, 0)
	if err := w.WriteChain(new(millrace.Chain)); err != nil || pool.Stats().InUse != 0 {
		t.Errorf("WriteChain = %v, %d bytes in use", err, pool.Stats().InUse)
	}
}

func TestReleasedWriter(t *testing.T) {
	pool := newPool(t)
	w := pool.NewWriter(io.Discard, 0)
	var c millrace.Chain
	addBlocks(pool, &c, letters(100), 10)
	w.WriteString("a")
	w.WriteChain(&c)
	w.WriteString("b")
	w.Release()
	for range 2 {
		if used := pool.Stats().InUse; used > 0 {
			t.Errorf("%d bytes in use after Release", used)
		}
		if _, err := w.Write(nil); err == nil || w.Flush() != err || w.WriteByte(1) != err {
			t.Errorf("Write after Release = %v", err)
		}
		w.Release()
	}
	var out bytes.Buffer
	w.Reset(&out)
	fmt.Fprint(w, "c")
	if err := w.Flush(); err != nil || out.String() != "c" {
		t.Errorf("after Reset: %q, %v", out.String(), err)
	}
}

func TestZeroWriter(t *testing.T) {
	var w millrace.Writer
	var out bytes.Buffer
	w.Reset(&out)
	fmt.Fprint(&w, "text")
	if w.Size() != 4096 || w.Buffered() != 4 || w.Flush() != nil || out.String() != "text" {
		t.Errorf("size %d, %q", w.Size(), out.String())
	}
}

// TestWriterReportsShortWrites checks that a destination that accepts too few bytes without an
// error, which bufio.Writer calls again, ends every write.
func TestWriterReportsShortWrites(t *testing.T) {
	for name, write := range map[string]func(w *millrace.Writer) (int, error){
		"Write":       func(w *millrace.Writer) (int, error) { return w.Write(letters(50)) },
		"WriteString": func(w *millrace.Writer) (int, error) { return w.WriteString(string(letters(50))) },
		"WriteByte and Flush": func(w *millrace.Writer) (int, error) {
			for range 50 {
				w.WriteByte('a')
			}
			return 3, w.Flush()
		},
	} {
		w := millrace.NewWriterSize(readerFromSink{&limitedSink{room: 3, short: true}}, 20)
		if n, err := write(w); n < 3 || err != io.ErrShortWrite || w.Flush() != err {
			t.Errorf("%s = %d, %v, want %v", name, n, err, io.ErrShortWrite)
		}
	}
}

// countingWriter returns an impossible number of bytes.
type countingWriter int

func (n countingWriter) Write([]byte) (int, error) { return int(n), nil }

func TestWriterRejectsImpossibleCounts(t *testing.T) {
	for _, n := range []countingWriter{-1, 6} {
		w := millrace.NewWriter(n)
		w.WriteString("12345")
		wantPanic(t, "Flush", "impossible count", func() { w.Flush() })
		w.Release()
		w = millrace.NewWriterSize(n, 1)
		wantPanic(t, "Write", "impossible count", func() { w.Write(letters(5)) })
		w.Release()
	}
}

// An idle Writer holds no block, and a message that fits takes one block and allocates nothing.
func TestWriterAllocatesNothing(t *testing.T) {
	pool := newPool(t)
	w := pool.NewWriter(io.Discard, 0)
	var c millrace.Chain
	body := freeze(pool, letters(100))
	defer body.Release()
	send := func() {
		w.WriteString("header")
		r := body.Clone()
		c.Append(&r)
		w.WriteChain(&c)
		w.WriteString("trailer")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	send()
	if n := testing.AllocsPerRun(100, send); n >= 1 && !raceEnabled && !millrace.Invariants {
		t.Errorf("%v allocations a message, want 0", n)
	}
	if used := pool.Stats().InUseBlocks; used != 1 {
		t.Errorf("%d blocks in use, want the one of the body", used)
	}
}

package millrace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// writes are the three ways in which WriteTo writes: to any io.Writer, to an io.ByteWriter, and to
// a socket. For the socket, a Writer without a kernel is used, so that it can fail at any byte.
var writes = map[string]func(*millrace.Chain, io.Writer) (int64, error){
	"joined": func(c *millrace.Chain, w io.Writer) (int64, error) {
		return c.WriteTo(writerFunc(w.Write))
	},
	"a Write each": func(c *millrace.Chain, w io.Writer) (int64, error) {
		return c.WriteTo(byteWriter{w})
	},
	"writeVector": millrace.WriteVector,
}

// byteWriter has a WriteByte, which WriteTo must not call.
type byteWriter struct{ io.Writer }

func (byteWriter) WriteByte(byte) error { panic("WriteByte") }

// writerFunc implements io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// failingAt accepts at bytes in total, and then returns err, or errFull if err is nil.
type failingAt struct {
	bytes.Buffer
	at  int
	err error
}

func (w *failingAt) Write(p []byte) (int, error) {
	if room := w.at - w.Len(); room < len(p) {
		w.Buffer.Write(p[:room])
		if w.err == nil {
			return room, io.ErrClosedPipe
		}
		return room, w.err
	}
	return w.Buffer.Write(p)
}

func TestWriteToAWriterThatMisbehaves(t *testing.T) {
	fault := errors.New("a fault")
	for _, test := range []struct {
		name  string
		write writerFunc
		want  string // the error
		left  string
	}{
		{"short", func([]byte) (int, error) { return 1, nil }, io.ErrShortWrite.Error(), "bcdefgh"},
		{"nothing", func([]byte) (int, error) { return 0, nil }, io.ErrShortWrite.Error(),
			"abcdefgh"},
		{"all of it and an error", func(p []byte) (int, error) { return len(p), fault }, "a fault",
			"efgh"},
		{"negative", func([]byte) (int, error) { return -1, nil },
			"invalid count -1 from Write of 4 bytes", "abcdefgh"},
		{"too many", func(p []byte) (int, error) { return len(p) + 1, nil },
			"invalid count 5 from Write of 4 bytes",
			"abcdefgh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c millrace.Chain
			addBlocks(millrace.DefaultPool(), &c, letters(8), 4)
			n, err := c.WriteTo(byteWriter{test.write})
			if err == nil || !strings.HasSuffix(err.Error(), test.want) ||
				int(n) != 8-len(test.left) {
				t.Errorf("WriteTo = %d, %v, want %d, %s", n, err, 8-len(test.left), test.want)
			}
			sameBytes(t, "the rest", &c, test.left)
			c.Release()
		})
	}
}

// WriteTo returns written blocks to their pool while it still writes the rest.
func TestWriteToReleasesAsItGoes(t *testing.T) {
	pool := millrace.NewPool()
	var c millrace.Chain
	addBlocks(pool, &c, letters(10), 2)
	blocks := int64(5)
	_, err := c.WriteTo(byteWriter{writerFunc(func(p []byte) (int, error) {
		if n := pool.Stats().InUseBlocks; n != blocks {
			t.Errorf("%d blocks in use, want %d", n, blocks)
		}
		blocks--
		return len(p), nil
	})})
	if err != nil || blocks != 0 || pool.Stats().InUse != 0 {
		t.Errorf("%v, %d blocks not written, %+v", err, blocks, pool.Stats())
	}
}

// Short pieces are joined for a writer that is not a socket, and long ones are written unchanged.
func TestWriteToJoinsShortPieces(t *testing.T) {
	const k = 1 << 10
	for _, test := range []struct {
		name         string
		pieces, want []int
		way          func(writerFunc) io.Writer
	}{
		{"one", []int{100}, []int{100}, nil},
		{"short ones", []int{100, 200, 300}, []int{600}, nil},
		{"more than a record holds", slices.Repeat([]int{400}, 100),
			[]int{16 * k, 16 * k, 40_000 - 32*k}, nil},
		{"long ones", []int{8 * k, 9 * k, 100 * k}, []int{8 * k, 9 * k, 100 * k}, nil},
		{"a header and a body", []int{11, 64 * k, 11, 2 * k}, []int{16 * k, 48*k + 11, 11 + 2*k},
			nil},
		{"a short one behind long ones", []int{8 * k, 64 * k, 10}, []int{8 * k, 64 * k, 10}, nil},
		{"one byte less than a long one", []int{8*k - 1, 64 * k}, []int{16 * k, 56*k - 1}, nil},
		{"to what takes bytes one at a time", []int{100, 200, 300}, []int{100, 200, 300},
			func(w writerFunc) io.Writer { return byteWriter{w} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := millrace.NewPool()
			var c millrace.Chain
			var all []byte
			for i, n := range test.pieces {
				p := bytes.Repeat([]byte{byte('a' + i%26)}, n)
				all = append(all, p...)
				r := freeze(pool, p)
				c.Append(&r)
			}
			var got []byte
			var lengths []int
			write := writerFunc(func(p []byte) (int, error) {
				got, lengths = append(got, p...), append(lengths, len(p))
				return len(p), nil
			})
			var w io.Writer = write
			if test.way != nil {
				w = test.way(write)
			}
			if n, err := c.WriteTo(w); n != int64(len(all)) || err != nil ||
				!bytes.Equal(got, all) {
				t.Errorf("WriteTo = %d, %v of %d bytes, the same: %v", n, err, len(all),
					bytes.Equal(got, all))
			}
			if !slices.Equal(lengths, test.want) {
				t.Errorf("writes of %d bytes, want %d", lengths, test.want)
			}
		})
	}
}

// Joined bytes return to their pool even if the writer panics, and the chain still has all
// unwritten bytes.
func TestWriteToAWriterThatPanics(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	var c millrace.Chain
	addBlocks(newPool(t), &c, letters(100), 10)
	panics := writerFunc(func([]byte) (int, error) { panic("no") })
	wantPanic(t, "WriteTo", "no", func() { c.WriteTo(panics) })
	sameBytes(t, "the rest", &c, string(letters(100)))
	c.Release()
}

// After an error, a Chain has all bytes that the source returned, in blocks of any size, and holds
// nothing else.
func TestReadFrom(t *testing.T) {
	fault := errors.New("a fault")
	whole := func(r io.Reader) io.Reader { return r }
	ending := func(tail io.Reader) func(io.Reader) io.Reader {
		return func(r io.Reader) io.Reader { return io.MultiReader(r, tail) }
	}
	for name, test := range map[string]struct {
		wrap func(io.Reader) io.Reader
		want error
	}{
		"whole":         {whole, nil},
		"HalfReader":    {iotest.HalfReader, nil},
		"DataErrReader": {iotest.DataErrReader, nil},
		"OneByteReader": {iotest.OneByteReader, nil},
		"empty reads":   {func(r io.Reader) io.Reader { return &hesitant{Reader: r} }, nil},
		"error":         {ending(iotest.ErrReader(fault)), fault},
		"error with data": {func(r io.Reader) io.Reader {
			return iotest.DataErrReader(io.MultiReader(r, iotest.ErrReader(fault)))
		}, fault},
		"nothing, ever": {ending(emptyReader{}), io.ErrNoProgress},
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t, millrace.DefaultPool())
			for _, n := range []int{0, 1, 4095, 4096, 4097, 4096 + 8192, 200_000} {
				var c millrace.Chain
				c.AppendCopy([]byte("before"))
				if m, err := c.ReadFrom(test.wrap(bytes.NewReader(letters(n)))); m != int64(n) ||
					err != test.want {
					t.Errorf("ReadFrom of %d bytes = %d, %v, want %v", n, m, err, test.want)
				}
				sameBytes(t, "the Chain", &c, "before"+string(letters(n)))
				c.Release()
			}
		})
	}
}

// hesitant returns 0 bytes and no error from every second Read.
type hesitant struct {
	io.Reader
	again bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.again = !h.again; h.again {
		return 0, nil
	}
	return h.Reader.Read(p)
}

// Small sources share a block, unless another Chain has a share of it.
func TestReadFromManySmallSources(t *testing.T) {
	before := millrace.DefaultPool().Stats().InUse
	var c, shared millrace.Chain
	var want []byte
	for i := range 2000 {
		p := letters(1 + i%3)
		want = append(want, p...)
		if n, err := c.ReadFrom(bytes.NewReader(p)); n != int64(len(p)) || err != nil {
			t.Fatalf("ReadFrom = %d, %v, want all bytes", n, err)
		}
		if i == 1000 {
			c.CloneTo(&shared)
		}
	}
	if got := content(&c); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, or others", len(got), len(want))
	}
	if got := content(&shared); !bytes.Equal(got, want[:len(got)]) {
		t.Error("a share's bytes changed")
	}
	if n := millrace.DefaultPool().Stats().InUse - before; n > 4*int64(len(want)) {
		t.Errorf("%d bytes are in use for %d", n, len(want))
	}
	c.Release()
	shared.Release()
}

func TestReadFromPanicsOnAnImpossibleCount(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	for _, src := range badReaders {
		var c millrace.Chain
		wantPanic(t, "ReadFrom", "millrace: reader returned an impossible count",
			func() { c.ReadFrom(src) })
		sameBytes(t, "the Chain", &c, "")
	}
}

// ReadFrom takes over the blocks of a Reader, starting with the buffered bytes.
func TestReadFromAReader(t *testing.T) {
	p := letters(100_000)
	r := newPool(t).NewReader(bytes.NewReader(p), 4096)
	defer r.Release()
	r.Peek(100)
	var c millrace.Chain
	if n := taken(func() { c.ReadFrom(r) }); n != 0 {
		t.Errorf("%d blocks of another pool taken", n)
	}
	sameBytes(t, "the Chain", &c, string(p))
	c.Release()
}

func TestPop(t *testing.T) {
	pool := newPool(t)
	for _, pieces := range []int{0, 1, 3, 4, 5, 40} {
		var c millrace.Chain
		want := letters(10 * pieces)
		addBlocks(pool, &c, want, 10)
		var got []byte
		for range pieces {
			r := c.Pop()
			got = append(got, r.Bytes()...)
			r.Release()
			if err := millrace.Broken(&c); err != nil {
				t.Fatal(err)
			}
		}
		if r := c.Pop(); r.Len() != 0 || c.Len() != 0 || !bytes.Equal(got, want) {
			t.Errorf("popped %q and %d bytes, want %q", got, r.Len(), want)
		}
	}
}

func TestAppendTo(t *testing.T) {
	pool := newPool(t)
	var c millrace.Chain
	defer c.Release()
	if p := c.AppendTo(nil); len(p) != 0 {
		t.Errorf("an empty Chain appended %q", p)
	}
	addBlocks(pool, &c, letters(100), 30)
	if p := c.AppendTo([]byte("> ")); string(p) != "> "+string(letters(100)) || c.Len() != 100 {
		t.Errorf("got %q, and %d bytes are left", p, c.Len())
	}
}

// A Chain and a Ref are printed and logged as their length. encoding/json refuses them.
func TestPrintedForms(t *testing.T) {
	var c millrace.Chain
	defer c.Release()
	fmt.Fprint(&c, "secret")
	r := freeze(millrace.DefaultPool(), []byte("hidden bytes"))
	defer r.Release()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("got", "chain", &c, "copy", c, "ref", &r)
	for _, test := range []struct{ got, want string }{
		{fmt.Sprint(&c), "6 bytes in 1 pieces"},
		{fmt.Sprintf("%v", c), "6 bytes in 1 pieces"},
		{fmt.Sprint(&r, r), "12 bytes 12 bytes"},
		{log.String(), `"chain":{"len":6,"pieces":1},"copy":{"len":6,"pieces":1},"ref":{"len":12}`},
	} {
		if !strings.Contains(test.got, test.want) {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
	for _, v := range []any{&c, c, &r, r, struct{ Body *millrace.Chain }{&c}} {
		if p, err := json.Marshal(v); err == nil {
			t.Errorf("json.Marshal(%T) = %s, want an error", v, p)
		}
	}
}

// TestReaderWriteTo checks that ChainReader.WriteTo continues after Read and after errors, and
// leaves the Chain as it was.
func TestReaderWriteTo(t *testing.T) {
	pool := newPool(t)
	want := letters(1000)
	for read := range 30 {
		for room := range 30 {
			var c millrace.Chain
			addBlocks(pool, &c, want, 7+room)
			r := c.Reader()
			got := make([]byte, 40*read)
			n, _ := io.ReadFull(r, got)
			out := &limitedSink{room: 50 * room}
			m, err := io.Copy(out, r)
			if n+out.got.Len() < len(want) && err != errSink || int(m) != out.got.Len() {
				t.Fatalf("WriteTo = %d, %v after %d bytes were read", m, err, n)
			}
			rest, _ := io.ReadAll(r)
			got = append(append(got[:n], out.got.Bytes()...), rest...)
			if !bytes.Equal(got, want) || r.Len() != 0 || c.Len() != len(want) {
				t.Fatalf("read %d, wrote %d: got %q", n, m, got)
			}
			c.Release()
		}
	}
}

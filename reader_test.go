package millrace_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

func TestReadRangeOfAnyLengthNeedsOneBlock(t *testing.T) {
	n := rounds(32 << 20)
	pool := millrace.NewPool()
	r := pool.NewReader(&pattern{end: n + 5, most: 50000}, 16)
	at := 0
	check := func(p []byte) {
		if len(p) == 0 {
			t.Error("an empty slice was lent")
		}
		for i, b := range p {
			if b != patternAt(at+i) {
				t.Fatalf("byte %d is %#x", at+i, b)
			}
		}
		at += len(p)
	}
	if err := r.ReadRange(n, check); err != nil || at != n {
		t.Fatalf("lent %d bytes, %v", at, err)
	}
	if high := pool.Stats().HighWater; high > 128<<10 {
		t.Errorf("%d bytes were in use at once", high)
	}
	if err := r.ReadRange(6, check); err != io.ErrUnexpectedEOF || at != n+5 {
		t.Errorf("at the end: lent up to %d, %v", at, err)
	}
	if err := r.ReadRange(6, check); err != io.EOF || at != n+5 {
		t.Errorf("behind the end: lent up to %d, %v", at, err)
	}
	r.Release()
}

// What has arrived is lent before the Reader waits for more.
func TestReadRangeLendsBeforeItWaits(t *testing.T) {
	lent := 0
	var src readerFunc = func(p []byte) (int, error) {
		if lent%100 != 0 {
			t.Errorf("asked for more with %d of %d bytes lent", lent%100, 100)
		}
		return copy(p, make([]byte, 100)), nil
	}
	r := millrace.NewReader(src)
	defer r.Release()
	if err := r.ReadRange(1000, func(p []byte) { lent += len(p) }); err != nil || lent != 1000 {
		t.Errorf("lent %d, %v", lent, err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// mayWait has deadlines, as a connection has, so that the Reader does not go by the clock to find out what it is.
type mayWait struct{ io.Reader }

func (mayWait) SetReadDeadline(time.Time) error { return nil }

// Lending touches neither the pool nor the block's counter.
func TestLendingIsFree(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(mayWait{&pattern{end: math.MaxInt, most: 700}}, 4096)
	lend := func(n int) {
		sum := 0
		for range n {
			if err := r.ReadRange(100, func(p []byte) { sum += len(p) }); err != nil {
				t.Fatal(err)
			}
		}
		if sum != 100*n {
			t.Fatalf("lent %d bytes, want %d", sum, 100*n)
		}
	}
	lend(100_000) // the size of the block settles
	stats, state := pool.Stats(), millrace.BlockState(r)
	lend(rounds(1_000_000))
	if now := pool.Stats(); now != stats {
		t.Errorf("the pool was touched: %+v, was %+v", now, stats)
	}
	if now := millrace.BlockState(r); now != state {
		t.Errorf("the block's counter was touched: %#x, was %#x", now, state)
	}
	r.Release()
}

// collecting are ways to bring 800 bytes together that arrive one after the other.
var collecting = map[string]func(t *testing.T, r *millrace.Reader, c *millrace.Chain){
	"ReadChain into one": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		for range 8 {
			readChain(t, r, c, 100)
		}
	},
	"Merge": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		for range 8 {
			var one millrace.Chain
			readChain(t, r, &one, 100)
			c.Merge(&one)
		}
	},
	"Merge from the back": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		var all [8]millrace.Chain
		for i := range all {
			readChain(t, r, &all[i], 100)
		}
		for i := len(all) - 1; i > 0; i-- {
			all[i-1].Merge(&all[i])
		}
		c.Merge(&all[0])
	},
	"Clone": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		for range 8 {
			var one millrace.Chain
			readChain(t, r, &one, 100)
			one.Clone(c)
			one.Release()
		}
	},
	"Slice": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		var all millrace.Chain
		readChain(t, r, &all, 800)
		for i := range 8 {
			all.Slice(c, 100*i, 100*i+100)
		}
		all.Release()
	},
	"Cut": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		var all millrace.Chain
		readChain(t, r, &all, 800)
		for range 80 {
			all.Cut(c, 10)
		}
	},
	"ReadFrom": func(t *testing.T, r *millrace.Reader, c *millrace.Chain) {
		readChain(t, r, c, 300)
		if n, err := c.ReadFrom(r); n != 500 || err != nil {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
	},
}

// Packets that arrived one after the other are one piece however they come together.
func TestPacketsCoalesce(t *testing.T) {
	for name, collect := range collecting {
		r := millrace.NewReader(&pattern{end: 800, most: 90})
		var c millrace.Chain
		collect(t, r, &c)
		if c.Pieces() != 1 {
			t.Errorf("%s: %d pieces", name, c.Pieces())
		}
		checkPattern(t, &c, 0, 800)
		c.Release()
		r.Release()
	}
}

func readChain(t testing.TB, r *millrace.Reader, c *millrace.Chain, n int) {
	t.Helper()
	if err := r.ReadChain(c, n); err != nil {
		t.Fatal(err)
	}
}

// A ReadChain that fails adds nothing and loses nothing, as often as it fails.
func TestReadChainLosesNothing(t *testing.T) {
	errPause := errors.New("pause")
	var src script
	text := strings.Repeat("0123456789", 1000)
	for i := 0; i < len(text); i += 500 {
		src = append(src, script{{text[i : i+500], nil}, {"", errPause}}...)
	}
	src = append(src, script{{"", io.EOF}, {"", io.EOF}, {"", io.EOF}}...)
	pool := millrace.NewPool()
	r := pool.NewReader(&src, 4096)
	var c millrace.Chain
	c.AppendCopy([]byte("before "))
	tries := 0
	for ; ; tries++ {
		err := r.ReadChain(&c, len(text))
		if err == nil {
			break
		}
		if err != errPause || c.Len() != 7 || r.Buffered() != 500*(tries+1) {
			t.Fatalf("try %d: %v, %d in the chain, %d buffered", tries, err, c.Len(), r.Buffered())
		}
	}
	if tries != len(text)/500-1 || string(c.Bytes()) != "before "+text {
		t.Errorf("after %d tries: %d bytes", tries, c.Len())
	}
	c.Release()
	if err := r.ReadChain(&c, 1); err != errPause {
		t.Errorf("at the last pause: %v", err)
	}
	if err := r.ReadChain(&c, 1); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// What a failed ReadChain leaves can be read in every other way, too, and is not waited for.
func TestReadAfterAFailedReadChain(t *testing.T) {
	fail := func() *millrace.Reader {
		r := millrace.NewReader(&script{{"one", nil}, {" two", nil}, {"\nrest", io.EOF}, {"", io.EOF}})
		if err := r.ReadChain(new(millrace.Chain), 100); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
		return r
	}
	for name, read := range map[string]func(r *millrace.Reader) string{
		"Peek":     func(r *millrace.Reader) string { b, _ := r.Peek(12); return string(b) },
		"Buffered": func(r *millrace.Reader) string { b, _ := r.Peek(r.Buffered()); return string(b) },
		"ReadLine": func(r *millrace.Reader) string {
			a, _, _ := r.ReadLine()
			line := string(a)
			b, _, _ := r.ReadLine()
			return line + "\n" + string(b)
		},
		"ReadAll": func(r *millrace.Reader) string { b, _ := io.ReadAll(r); return string(b) },
		"WriteTo": func(r *millrace.Reader) string { var w strings.Builder; r.WriteTo(&w); return w.String() },
		"ReadRange": func(r *millrace.Reader) string {
			var b []byte
			r.ReadRange(12, func(p []byte) { b = append(b, p...) })
			return string(b)
		},
		"ReadChain": func(r *millrace.Reader) string {
			var c millrace.Chain
			r.ReadChain(&c, 12)
			defer c.Release()
			return string(c.Bytes())
		},
	} {
		r := fail()
		if got := read(r); got != "one two\nrest" {
			t.Errorf("%s: %q", name, got)
		}
		r.Release()
	}
}

func TestReaderRefusesNegativeCounts(t *testing.T) {
	r := millrace.NewReader(&script{})
	defer r.Release()
	for name, err := range map[string]error{
		"ReadRange": r.ReadRange(-1, func([]byte) {}),
		"ReadChain": r.ReadChain(new(millrace.Chain), -1),
		"Skip":      r.Skip(-1),
		"Discard":   second(r.Discard(-1)),
		"Peek":      second(r.Peek(-1)),
	} {
		if err != bufio.ErrNegativeCount {
			t.Errorf("%s(-1): %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// waiting are the calls that wait when nothing is buffered.
var waiting = map[string]func(r *millrace.Reader) error{
	"Read":        func(r *millrace.Reader) error { _, err := r.Read(make([]byte, 10)); return err },
	"Read large":  func(r *millrace.Reader) error { _, err := r.Read(make([]byte, 1<<16)); return err },
	"ReadByte":    func(r *millrace.Reader) error { _, err := r.ReadByte(); return err },
	"ReadRune":    func(r *millrace.Reader) error { _, _, err := r.ReadRune(); return err },
	"ReadSlice":   func(r *millrace.Reader) error { _, err := r.ReadSlice('x'); return err },
	"ReadLine":    func(r *millrace.Reader) error { _, _, err := r.ReadLine(); return err },
	"ReadString":  func(r *millrace.Reader) error { _, err := r.ReadString('x'); return err },
	"Peek":        func(r *millrace.Reader) error { _, err := r.Peek(1); return err },
	"Discard":     func(r *millrace.Reader) error { _, err := r.Discard(1); return err },
	"Skip":        func(r *millrace.Reader) error { return r.Skip(1 << 20) },
	"WriteTo":     func(r *millrace.Reader) error { _, err := r.WriteTo(io.Discard); return err },
	"WriteTo own": func(r *millrace.Reader) error { _, err := r.WriteTo(plainWriter{io.Discard}); return err },
	"ReadRange":   func(r *millrace.Reader) error { return r.ReadRange(1<<20, func([]byte) {}) },
	"ReadChain":   func(r *millrace.Reader) error { return r.ReadChain(new(millrace.Chain), 5) },
	"ReadBE":      func(r *millrace.Reader) error { _, err := r.ReadBE(8); return err },
	"ReadUvarint": func(r *millrace.Reader) error { _, err := r.ReadUvarint(); return err },
}

func TestReaderAfterRelease(t *testing.T) {
	pool := millrace.NewPool()
	src := &script{{"kept and lost", nil}}
	r := pool.NewReader(src, 4096)
	var c millrace.Chain
	readChain(t, r, &c, 4)
	r.Release()
	if string(c.Bytes()) != "kept" {
		t.Errorf("what ReadChain gave is %q after Release", c.Bytes())
	}
	c.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
	for range 2 {
		for name, call := range waiting {
			if err := call(r); err == nil || err == io.EOF {
				t.Errorf("%s after Release: %v", name, err)
			}
		}
		if _, err := r.Read(nil); err == nil {
			t.Error("Read(nil) after Release does not fail")
		}
		if n := r.Buffered(); n != 0 {
			t.Errorf("%d bytes buffered after Release", n)
		}
		r.Release() // does nothing
	}
	r.Reset(strings.NewReader("again"))
	if b, err := io.ReadAll(r); string(b) != "again" || err != nil {
		t.Errorf("after Reset: %q, %v", b, err)
	}
	r.Release()
}

// Reset keeps the block that nobody shares, and leaves one that somebody does.
func TestReaderResetAndItsBlock(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(strings.NewReader("first"), 4096)
	r.ReadByte()
	r.Reset(strings.NewReader("second"))
	r.ReadByte()
	if s := pool.Stats(); s.Taken != 1 {
		t.Errorf("%d blocks taken", s.Taken)
	}
	var c millrace.Chain
	readChain(t, r, &c, 5)
	r.Reset(strings.NewReader("third"))
	if b, _ := r.Peek(5); string(b) != "third" || string(c.Bytes()) != "econd" {
		t.Errorf("read %q beside %q", b, c.Bytes())
	}
	c.Release()
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

// What a fed Reader lends and hands on is the memory that it was fed with.
func TestReaderFedByAnotherCopiesNothing(t *testing.T) {
	first := millrace.NewReader(strings.NewReader(strings.Repeat("0123456789", 1000)))
	memory := map[*byte]bool{}
	second := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		if _, err := first.Peek(1); err != nil {
			return err
		}
		p, err := first.Peek(min(first.Buffered(), 700))
		for i := range p {
			memory[&p[i]] = true
		}
		if err != nil {
			return err
		}
		return first.ReadChain(dst, len(p))
	})
	n := 0
	for err := error(nil); err == nil; {
		err = second.ReadRange(1000, func(p []byte) {
			n += len(p)
			for i := range p {
				if !memory[&p[i]] {
					t.Fatal("lent memory that was not the first Reader's")
				}
			}
		})
	}
	if n != 10_000 {
		t.Errorf("%d bytes, want 10000", n)
	}
	second.Release()
	first.Release()
}

func TestFedReaderCopiesNothing(t *testing.T) {
	memory := map[*byte]bool{}
	fed := 0
	r := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		if fed == 10 {
			return io.EOF
		}
		fed++
		d := millrace.DefaultPool.Get(1000)
		for i := range d.Bytes() {
			memory[&d.Bytes()[i]] = true
		}
		ref := d.Freeze(1000)
		dst.Append(&ref)
		return nil
	})
	own := func(p []byte) {
		for i := range p {
			if !memory[&p[i]] {
				t.Fatal("lent memory that was not fed")
			}
		}
	}
	if err := r.ReadRange(1500, own); err != nil {
		t.Error(err)
	}
	b, err := r.Peek(100)
	if err != nil {
		t.Error(err)
	}
	own(b)
	var c millrace.Chain
	readChain(t, r, &c, 1500)
	if n, err := c.ReadFrom(r); n != 7000 || err != nil {
		t.Errorf("ReadFrom = %d, %v", n, err)
	}
	for p := range c.All() {
		own(p)
	}
	if c.Pieces() != 9 || c.Len() != 8500 {
		t.Errorf("%d pieces of %d bytes", c.Pieces(), c.Len())
	}
	c.Release()
	r.Release()
}

// An error of the feeder comes after what it added.
func TestFedReaderErrors(t *testing.T) {
	errStop := errors.New("stop")
	calls := 0
	r := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		if dst.Len() != 0 {
			t.Errorf("called with %d bytes in dst", dst.Len())
		}
		switch calls++; calls {
		case 1:
			dst.AppendCopy([]byte("some"))
			return errStop
		case 2:
			return nil
		case 3:
			dst.AppendCopy([]byte("more"))
			return nil
		}
		return io.EOF
	})
	var got bytes.Buffer
	collect := func(p []byte) { got.Write(p) }
	if err := r.ReadRange(8, collect); err != errStop || got.String() != "some" {
		t.Errorf("%q, %v", got.String(), err)
	}
	if err := r.ReadRange(8, collect); err != io.ErrUnexpectedEOF || got.String() != "somemore" {
		t.Errorf("%q, %v", got.String(), err)
	}
	r.Release()
	idle := millrace.NewReaderFrom(func(*millrace.Chain) error { return nil })
	if _, err := idle.ReadByte(); err != io.ErrNoProgress {
		t.Errorf("a feeder that gives nothing: %v", err)
	}
	if _, err := idle.Peek(3); err != io.ErrNoProgress {
		t.Errorf("a feeder that gives nothing: %v", err)
	}
	idle.Release()
}

// A feeder that gives a Reader what has been released already.
func TestFedReaderMisuse(t *testing.T) {
	r := freeze(millrace.NewPool(), []byte("text"))
	var c millrace.Chain
	c.Append(&r)
	copied := c
	c.Release()
	fed := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		dst.Merge(&copied)
		return nil
	})
	text := "millrace: use of a share after its block went back to the pool"
	if millrace.Invariants {
		text = "millrace: released twice"
	}
	wantPanic(t, "ReadByte", text, func() { fed.ReadByte() })
}

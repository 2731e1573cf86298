package millrace_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A script is a source that returns these results and then panics.
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

// If the source is not a socket, a range that fits into the block is lent as one slice, however
// short the reads are. A longer range is lent as it arrives.
func TestReadRangeOfSmallReads(t *testing.T) {
	r := millrace.NewReader(&pattern{end: 1 << 20, most: 100})
	defer r.Release()
	for _, test := range []struct{ n, slices int }{{1000, 1}, {3000, 1}, {10, 1}, {100_000, 100}} {
		slices, lent := 0, 0
		if err := r.ReadRange(test.n, func(p []byte) { slices++; lent += len(p) }); err != nil ||
			lent != test.n {
			t.Errorf("lent %d of %d bytes, %v", lent, test.n, err)
		}
		if (slices == 1) != (test.slices == 1) {
			t.Errorf("%d bytes in %d slices", test.n, slices)
		}
	}
}

// Lending touches neither the pool nor the block's counter.
func TestLendingIsFree(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(&pattern{end: math.MaxInt, most: 700}, 4096)
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
	lend(100_000) // until the block has its final size
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
			t.Errorf("%s(-1): %v, want bufio.ErrNegativeCount", name, err)
		}
	}
}

// waiting are the calls that wait when nothing is buffered.
var waiting = map[string]func(r *millrace.Reader) error{
	"Read": func(r *millrace.Reader) error {
		_, err := r.Read(make([]byte, 10))
		return err
	},
	"Read large": func(r *millrace.Reader) error {
		_, err := r.Read(make([]byte, 1<<16))
		return err
	},
	"ReadByte":   func(r *millrace.Reader) error { _, err := r.ReadByte(); return err },
	"ReadRune":   func(r *millrace.Reader) error { _, _, err := r.ReadRune(); return err },
	"ReadSlice":  func(r *millrace.Reader) error { _, err := r.ReadSlice('x'); return err },
	"ReadLine":   func(r *millrace.Reader) error { _, _, err := r.ReadLine(); return err },
	"ReadString": func(r *millrace.Reader) error { _, err := r.ReadString('x'); return err },
	"Peek":       func(r *millrace.Reader) error { _, err := r.Peek(1); return err },
	"Discard":    func(r *millrace.Reader) error { _, err := r.Discard(1); return err },
	"Skip":       func(r *millrace.Reader) error { return r.Skip(1 << 20) },
	"WriteTo":    func(r *millrace.Reader) error { _, err := r.WriteTo(io.Discard); return err },
	"WriteTo own": func(r *millrace.Reader) error {
		_, err := r.WriteTo(plainWriter{io.Discard})
		return err
	},
	"ReadRange":   func(r *millrace.Reader) error { return r.ReadRange(1<<20, func([]byte) {}) },
	"ReadChain":   func(r *millrace.Reader) error { return r.ReadChain(new(millrace.Chain), 5) },
	"ReadBE":      func(r *millrace.Reader) error { _, err := r.ReadBE(8); return err },
	"ReadUvarint": func(r *millrace.Reader) error { _, err := r.ReadUvarint(); return err },
}

func TestReaderAfterRelease(t *testing.T) {
	pool := newPool(t)
	src := &script{{"kept and lost", nil}}
	r := pool.NewReader(src, 4096)
	var c millrace.Chain
	readChain(t, r, &c, 4)
	r.Release()
	if string(c.Bytes()) != "kept" {
		t.Errorf("what ReadChain gave is %q after Release", c.Bytes())
	}
	c.Release()
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

// Reset keeps a block without other shares, and gives up a shared one.
func TestReaderResetAndItsBlock(t *testing.T) {
	pool := newPool(t)
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
}

// Bytes that were read before the source panicked can still be read, in order.
func TestReaderLosesNothingWhenItsSourcePanics(t *testing.T) {
	src := &pattern{end: 1000, most: 10}
	reads := 0
	r := millrace.NewReader(readerFunc(func(p []byte) (int, error) {
		if reads++; reads == 5 {
			panic("source failed")
		}
		return src.Read(p)
	}))
	defer r.Release()
	lent := 0
	wantPanic(t, "ReadRange", "source failed",
		func() { r.ReadRange(95, func(p []byte) { lent += len(p) }) })
	rest := must(io.ReadAll(r))
	for i, b := range rest {
		if b != patternAt(lent+i) {
			t.Fatalf("byte %d is %#x, want %#x", lent+i, b, patternAt(lent+i))
		}
	}
	if lent+len(rest) != src.end {
		t.Errorf("lent %d and read %d bytes of %d", lent, len(rest), src.end)
	}
}

// feedApart returns a Reader that is fed with p in pieces of n bytes, each in a separate block.
func feedApart(p []byte, n int) *millrace.Reader {
	return millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		for i := 0; i < len(p); i += n {
			r := freeze(millrace.DefaultPool(), p[i:min(i+n, len(p))])
			dst.Append(&r)
		}
		p = nil
		return io.EOF
	})
}

func TestFedReaderCopiesNothing(t *testing.T) {
	memory := map[*byte]bool{}
	fed := 0
	r := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		if fed == 10 {
			return io.EOF
		}
		fed++
		d := millrace.DefaultPool().Get(1000)
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
		t.Errorf("ReadFrom = %d, %v, want 7000", n, err)
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

func TestFedReaderGivesUp(t *testing.T) {
	idle := millrace.NewReaderFrom(func(*millrace.Chain) error { return nil })
	defer idle.Release()
	if _, err := idle.ReadByte(); err != io.ErrNoProgress {
		t.Errorf("a feeder that gives nothing: %v", err)
	}
	if _, err := idle.Peek(3); err != io.ErrNoProgress {
		t.Errorf("a feeder that gives nothing: %v", err)
	}
}

// The feeder adds a released chain.
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

// The unread byte comes before all other bytes, even if they are in several pieces.
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

// A sizedSource returns size bytes at a time, or as many as requested if size is 0.
type sizedSource struct{ size int }

func (s *sizedSource) Read(p []byte) (int, error) {
	if s.size > 0 {
		p = p[:min(len(p), s.size)]
	}
	clear(p)
	return len(p), nil
}

// consume reads count packets without keeping any. It returns the largest and the last block size.
func consume(t *testing.T, pool *millrace.Pool, r *millrace.Reader, packet, count int) (largest,
	last int64) {
	t.Helper()
	for range count {
		if err := r.ReadRange(packet, func([]byte) {}); err != nil {
			t.Fatal(err)
		}
		last = pool.Stats().InUse
		largest = max(largest, last)
	}
	return largest, last
}

func TestBlockSizeFollowsTheTraffic(t *testing.T) {
	pool := millrace.NewPool()
	src := &sizedSource{size: 100}
	r := pool.NewReader(src, 4096)
	expect := func(what string, packet, count int, want int64) {
		t.Helper()
		if _, last := consume(t, pool, r, packet, count); last != want {
			t.Errorf("%s: block of %d bytes, want %d", what, last, want)
		}
	}
	if largest, _ := consume(t, pool, r, 100, 5000); largest != 4096 {
		t.Errorf("a trickle: blocks of up to %d bytes", largest)
	}
	src.size = 0
	expect("a flood", 1000, 1000, 64<<10)
	src.size = 1 << 15
	expect("large reads", 1000, 10000, 64<<10)
	src.size = 100
	expect("a trickle again", 100, 5000, 4096)
	r.Release()

	// The first block is no larger than the requested Reader.
	r = pool.NewReader(&sizedSource{size: 10}, 16)
	expect("a trickle into a small Reader", 10, 1000, 512)
	r.Release()
}

// A Reader may be larger than the largest block that is chosen automatically.
func TestBlockOfALargeReader(t *testing.T) {
	pool := newPool(t)
	r := pool.NewReader(&sizedSource{size: 100}, 1<<20)
	if _, largest := consume(t, pool, r, 1000, 100); largest != 4096 {
		t.Errorf("a trickle needs a block of %d bytes", largest)
	}
	b, err := r.Peek(1 << 20)
	if len(b) != 1<<20 || err != nil {
		t.Errorf("Peek: %d bytes, %v", len(b), err)
	}
	r.Release()
}

// If all packets are kept, the blocks hold only a few reads each. A kept packet thus holds little
// memory in addition to its bytes.
func TestBlockSizeOfAStreamThatIsKept(t *testing.T) {
	for _, test := range []struct {
		read  int   // bytes per read
		block int64 // final size
	}{
		{50, 4 << 10},
		{500, 8 << 10},
		{1250, 32 << 10},
		{12500, 64 << 10},
		{0, 64 << 10},
	} {
		pool := newPool(t)
		r := pool.NewReader(&sizedSource{size: test.read}, 4096)
		var kept millrace.Chain
		var last, largest int64
		for kept.Len() < 2<<20 {
			before := pool.Stats().InUse
			readChain(t, r, &kept, 1000)
			if grown := pool.Stats().InUse - before; grown > 0 {
				last, largest = grown, max(largest, grown)
			}
		}
		if largest != test.block || last != test.block {
			t.Errorf("reads of %d: blocks of up to %d bytes, the last of %d; want %d", test.read,
				largest, last, test.block)
		}
		if pinned := pool.Stats().InUse; pinned > int64(kept.Len())*3/2+last {
			t.Errorf("reads of %d: %d bytes in use for %d that are kept", test.read, pinned,
				kept.Len())
		}
		kept.Release()
		r.Release()
	}
}

// If all packets of a block are released early enough, the Reader uses the block again from its
// start.
func TestReleasedPacketsLeaveTheBlock(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(&sizedSource{size: 100}, 4096)
	for range 10000 {
		var c millrace.Chain
		readChain(t, r, &c, 100)
		c.Release()
	}
	r.Release()
	if s := pool.Stats(); s.Taken != 1 {
		t.Errorf("%d blocks were taken", s.Taken)
	}
}

// A relay keeps a window of packets. The Reader fills returned blocks for it.
func TestBlocksOfAWindowComeBack(t *testing.T) {
	pool := newPool(t)
	r := pool.NewReader(&pattern{end: rounds(48 << 20), most: 2000}, 4096)
	var window millrace.Chain
	at := 0
	for {
		if err := r.ReadChain(&window, 1000); err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if window.Len() > 256<<10 {
			var old millrace.Chain
			window.CutTo(&old, 1000)
			checkPattern(t, &old, at, 1000)
			old.Release()
			at += 1000
		}
	}
	if s := pool.Stats(); s.HighWater > 2*256<<10 {
		t.Errorf("%d bytes were in use for a window of 256 KiB", s.HighWater)
	}
	window.Release()
	r.Release()
}

// A line longer than the largest size class is moved to a larger block only a few times, however it
// arrives.
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

// atMost limits each Read of src to n bytes.
func atMost(src io.Reader, n int) io.Reader {
	return readerFunc(func(p []byte) (int, error) { return src.Read(p[:min(n, len(p))]) })
}

func TestReadIntegersOfImpossibleWidth(t *testing.T) {
	r := millrace.NewReader(&script{})
	defer r.Release()
	for _, n := range []int{-1, 0, 9} {
		want := fmt.Sprintf("millrace: integer of %d bytes; it has 1 to 8", n)
		if _, err := r.ReadBE(n); err == nil || err.Error() != want {
			t.Errorf("ReadBE(%d): %v, want %s", n, err, want)
		}
		if _, err := r.ReadLE(n); err == nil || err.Error() != want {
			t.Errorf("ReadLE(%d): %v, want %s", n, err, want)
		}
	}
}

// The results equal those of encoding/binary for every valid and invalid encoding. Invalid
// encodings are not consumed.
func TestReadVarintsLikeEncodingBinary(t *testing.T) {
	nines := bytes.Repeat([]byte{0xff}, 9)
	for _, p := range [][]byte{
		{0}, {0x80, 0}, {0x80, 0x80, 0}, {0xff, 0x7f}, // longer encodings than needed are valid
		append(bytes.Clone(nines), 0), append(bytes.Clone(nines), 1), append(bytes.Clone(nines), 2),
		append(bytes.Clone(nines), 0x7f), append(bytes.Clone(nines), 0x80),
		append(bytes.Clone(nines), 0x81, 0),
		bytes.Repeat([]byte{0x80}, 20), append(bytes.Repeat([]byte{0x80}, 9), 1),
		{}, {0x80}, {0xff, 0xff},
	} {
		want, wantErr := binary.ReadUvarint(bytes.NewReader(p))
		for how, r := range map[string]*millrace.Reader{
			"whole":     millrace.NewReader(bytes.NewReader(p)),
			"one byte":  millrace.NewReaderSize(iotest.OneByteReader(bytes.NewReader(p)), 16),
			"fed apart": feedApart(p, 1),
		} {
			v, size, err := r.ReadULEB128()
			if (err == nil) != (wantErr == nil) || err == nil && v != want || err != nil &&
				(v != 0 || size != 0) {
				t.Errorf("%s: %x: %d, %d, %v; encoding/binary has %d, %v", how, p, v, size, err,
					want, wantErr)
			}
			if wantErr == io.EOF && err != io.EOF || wantErr == io.ErrUnexpectedEOF &&
				err != io.ErrUnexpectedEOF {
				t.Errorf("%s: %x: %v, want %v", how, p, err, wantErr)
			}
			if rest, _ := io.ReadAll(r); !bytes.Equal(rest, p[size:]) {
				t.Errorf("%s: %x: left %x, want %x", how, p, rest, p[size:])
			}
			r.Release()
		}
	}
}

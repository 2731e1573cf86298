package frame_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// sparing is a Buffer that fails the test if the caller requests much more than has arrived.
type sparing struct {
	arena.Buffer
	t testing.TB
	r *millrace.Reader

	// The greatest length of the frame, and the bytes that had been filled by then.
	most, arrived int
}

func (b *sparing) Writable(n int) []byte {
	b.t.Helper()
	if n > max(4<<10, b.Len(), b.r.Buffered()) {
		b.t.Errorf("%d bytes asked for when %d had arrived and %d were buffered", n, b.Len(),
			b.r.Buffered())
	}
	b.most, b.arrived = max(b.most, b.Len()+n), b.Len()
	return b.Buffer.Writable(n)
}

// Memory is allocated as bytes arrive, not as lengths are announced.
func TestMemoryIsGrantedAsBytesArrive(t *testing.T) {
	long := rawFrame(1, strings.Repeat("x", recordMost))
	plain := func() frame.Format { return record{} }
	for _, tt := range []struct {
		name   string
		format func() frame.Format
		wire   string
		chain  bool
		blocks int // bytes of blocks, in addition to a few for each byte that has arrived
		each   int
	}{
		{"a chain", plain, long, true, 64 << 10, 2},
		{"a buffer", plain, long, false, 64 << 10, 0},
		{"a buffer, sealed", func() frame.Format { return new(masked) },
			new(masked).seal(long[:recordSize+1<<20]), false, 128 << 10, 0},
	} {
		for _, arrived := range []int{0, 1, 3000, 5000, 100_000, 1 << 20} {
			f, pool := tt.format(), millrace.NewPool()
			r := pool.NewReader(strings.NewReader(tt.wire[:f.HeaderSize()+arrived]), 4096)
			buf := &sparing{Buffer: new(arena.Heap), t: t, r: r}
			d := frame.NewDecoder(r, f, frame.MaxPayload(recordMost))
			var err error
			if tt.chain {
				_, err = d.Next(new(millrace.Chain))
			} else {
				_, _, err = d.NextInto(buf)
			}
			if limit := 2*(recordSize+arrived) + 4<<10; err != io.ErrUnexpectedEOF ||
				buf.most > limit {
				t.Errorf("%s, %d of 16 MiB come: %v, %d bytes granted, limit %d", tt.name, arrived,
					err, buf.most, limit)
			}
			if n := int(pool.Stats().HighWater); n > tt.blocks+tt.each*arrived {
				t.Errorf("%s, %d of 16 MiB come: %d bytes of blocks taken", tt.name, arrived, n)
			}
			r.Release()
		}
	}
}

// The frame is added after the existing bytes of a Buffer, which remain if the call fails.
func TestFramesComeBehindWhatIsThere(t *testing.T) {
	whole, cut := rawFrame(1, strings.Repeat("x", 10_000)), rawFrame(2, "cut")[:5]
	for _, buf := range []arena.Buffer{new(arena.Heap), arena.NewPool(1 << 20), arena.NewPool(64)} {
		r := millrace.NewReader(iotest.TimeoutReader(io.MultiReader(
			strings.NewReader(whole[:5000]), strings.NewReader(whole[5000:]+cut))))
		d := frame.NewDecoder(r, record{})
		fails := func(want error) {
			t.Helper()
			if _, _, err := d.NextInto(buf); err != want || string(buf.Data(99)) != "mark" {
				t.Errorf("%q left after %v", buf.Data(99), err)
			}
		}
		_, _ = buf.Write([]byte("mark"))
		fails(iotest.ErrTimeout)
		s, h, err := d.NextInto(buf)
		if err != nil || h.Payload != 10_000 || string(s.Bytes()) != "mark"+whole {
			t.Errorf("%d bytes, %+v, %v, want the frame after the mark", s.Len(), h, err)
		}
		s.Release()
		_, _ = buf.Write([]byte("mark"))
		fails(io.ErrUnexpectedEOF)
		r.Release()
	}
}

// counting is a source that records the sizes of reads.
type counting struct {
	src   io.Reader
	reads [][2]int // requested and returned bytes
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.reads = append(c.reads, [2]int{len(p), n})
	return n, err
}

// A large payload is read directly into the Buffer. The reads are as large as the grants, and
// larger than any block of the Reader.
func TestLargePayloadsAreReadInPlace(t *testing.T) {
	src := &counting{src: strings.NewReader(rawFrame(1, strings.Repeat("x", 1<<20)))}
	r := millrace.NewReader(src)
	defer r.Release()
	s, _, err := frame.NewDecoder(r, record{}).NextInto(new(arena.Heap))
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	direct := 0
	for _, read := range src.reads {
		if read[0] > 64<<10 {
			direct += read[1]
		}
	}
	if direct < 1<<19 {
		t.Errorf("%d of 1 MiB came without passing through a block; reads %v", direct, src.reads)
	}
}

// If a source repeatedly returns nothing and no error, the Decoder gives up.
func TestNoProgress(t *testing.T) {
	for _, in := range []string{"", "\x01\x00", rawFrame(1, "cut")[:6],
		rawFrame(1, strings.Repeat("x", 10_000))[:6]} {
		for _, w := range ways() {
			r := millrace.NewReader(io.MultiReader(strings.NewReader(in), nothing{}))
			if _, err := w.next(frame.NewDecoder(r, record{})); err != io.ErrNoProgress {
				t.Errorf("%s: %v, want io.ErrNoProgress", w.name, err)
			}
			r.Release()
		}
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

// A failed frame leaves no memory in the Decoder, and no bytes in the Buffer.
func TestNothingIsLeftOfAFailedFrame(t *testing.T) {
	large := rawFrame(1, strings.Repeat("x", 10_000))
	buf := arena.NewPool(100)
	r := millrace.NewReader(iotest.TimeoutReader(io.MultiReader(
		strings.NewReader(large[:6000]), strings.NewReader(large[6000:]+rawFrame(2, "small")))))
	defer r.Release()
	d := frame.NewDecoder(r, record{})
	for _, want := range []string{large, rawFrame(2, "small")} {
		s, _, err := d.NextInto(buf)
		for err == iotest.ErrTimeout {
			s, _, err = d.NextInto(buf)
		}
		if err != nil || string(s.Bytes()) != want || d.Kept() > 256 {
			t.Errorf("%d bytes, %v, %d bytes kept", s.Len(), err, d.Kept())
		}
		s.Release()
	}
	wire := new(masked).seal(large)
	damaged := wire[:len(wire)-1] + "?"
	sr := millrace.NewReader(strings.NewReader(damaged))
	defer sr.Release()
	d = frame.NewDecoder(sr, new(masked))
	if _, _, err := d.NextInto(buf); !errors.Is(err, errSum) || d.Kept() > 0 {
		t.Errorf("%v, %d bytes kept", err, d.Kept())
	}
	_, _ = buf.Write([]byte("small"))
	s := buf.Take()
	s.Release()
	// The two small frames are in the Pool's memory. One of the large ones was returned, on the
	// heap.
	if st := buf.Stats(); st.Modes[arena.Back].Frames != 2 || st.Modes[arena.Alloc].Frames != 1 {
		t.Errorf("%+v, want two frames in back mode and one in alloc mode", st)
	}
}

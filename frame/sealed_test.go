package frame_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// sealedWays are those that a sealed format has.
func sealedWays() []way { return ways()[1:] }

// sealedRecords are frames whose payloads end on both sides of a chunk's end.
func sealedRecords() (records []string) {
	for i, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 0, 40, 3} {
		records = append(records, rawFrame(byte(i), strings.Repeat(string(rune('a'+i)), n)))
	}
	return records
}

// The plain frames are the same for every way in which the bytes come in.
func TestSealedEverySplit(t *testing.T) {
	records := sealedRecords()
	wire := new(masked).seal(records...)
	want, wantErr := slowParse(strings.Join(records, ""), limits{most: 1 << 20})
	for _, w := range sealedWays() {
		check := func(src io.Reader) {
			t.Helper()
			r := millrace.NewReader(src)
			defer r.Release()
			got, err := drain(frame.NewDecoder(r, new(masked)), w)
			sameResult(t, w.name, got, err, want, wantErr)
		}
		for cut := range len(wire) {
			check(io.MultiReader(strings.NewReader(wire[:cut]), strings.NewReader(wire[cut:])))
		}
		check(iotest.OneByteReader(strings.NewReader(wire)))
		check(iotest.HalfReader(strings.NewReader(wire)))
		check(iotest.DataErrReader(strings.NewReader(wire)))
	}
}

// Cut anywhere, the stream gives what was whole, and says that it ended in the middle of the rest.
func TestSealedStreamsThatEnd(t *testing.T) {
	records := sealedRecords()
	for whole := range records {
		begin := len(new(masked).seal(records[:whole]...))
		wire := new(masked).seal(records[:whole+1]...)
		want, _ := slowParse(strings.Join(records[:whole], ""), limits{most: 1 << 20})
		for end := begin; end < len(wire); end++ {
			wantErr := io.ErrUnexpectedEOF
			if end == begin {
				wantErr = io.EOF
			}
			r := millrace.NewReader(strings.NewReader(wire[:end]))
			got, err := drain(frame.NewDecoder(r, new(masked)), sealedWays()[0])
			sameResult(t, fmt.Sprintf("%d of %d bytes", end, len(wire)), got, err, want, wantErr)
			r.Release()
		}
	}
}

// Errors of the source and full arenas lose nothing, between and inside chunks, in any Buffer with which the call is repeated.
func TestSealedFramesGoOn(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		var records []string
		for range 1 + rnd.IntN(20) {
			records = append(records, rawFrame(byte(rnd.IntN(badKind)), randomBytes(rnd, rnd.IntN(100)<<rnd.IntN(8))))
		}
		want, wantErr := slowParse(strings.Join(records, ""), limits{most: 1 << 20})
		r := millrace.NewReader(&weather{new(masked).seal(records...), rnd})
		d := frame.NewDecoder(r, new(masked))
		buffers := []arena.Buffer{
			new(arena.Heap), arena.NewPool(1 << 14), arena.NewPool(1<<14, arena.NoHeap()),
		}
		var got []slowFrame
		for {
			frames, err := drain(d, way{next: into(buffers[rnd.IntN(len(buffers))])})
			got = append(got, frames...)
			if err != errDeadline && err != arena.ErrFull && err != io.ErrNoProgress {
				sameResult(t, "sealed", got, err, want, wantErr)
				break
			}
		}
		r.Release()
	}
}

// What cannot be opened ends the stream, and nothing of it is left in the Buffer.
func TestSealedFaults(t *testing.T) {
	records := sealedRecords()
	wire := new(masked).seal(records...)
	for i := range len(wire) {
		damaged := []byte(wire)
		damaged[i] ^= 0x40
		for _, w := range sealedWays() {
			r := millrace.NewReader(strings.NewReader(string(damaged)))
			d := frame.NewDecoder(r, new(masked))
			frames, err := drain(d, w)
			if !errors.Is(err, errSum) {
				t.Fatalf("byte %d: %d frames, %v", i, len(frames), err)
			}
			if _, again := w.next(d); again != err {
				t.Fatalf("byte %d: %v after %v", i, again, err)
			}
			r.Release()
		}
	}
}

// Limits and deadlines are those of plain formats.
func TestSealedLimitsAndDeadlines(t *testing.T) {
	r := millrace.NewReader(strings.NewReader(new(masked).seal(rawFrame(3, "too long"))))
	defer r.Release()
	var limit *frame.LimitError
	_, _, err := frame.NewDecoder(r, new(masked), frame.MaxKind(3, 7)).NextInto(new(arena.Heap))
	if !errors.As(err, &limit) || *limit != (frame.LimitError{Kind: 3, Have: 8, Limit: 7}) {
		t.Error(err)
	}

	wire := new(masked).seal(rawFrame(1, "the first chunk and the second one"))
	s := script{{time.Hour, wire[:12]}, {inPayload - 1, wire[12:20]}, {2, wire[20:]}}
	for _, w := range sealedWays() {
		conversation(t, s, new(masked), func(t *testing.T, d *frame.Decoder, _ net.Conn) {
			began := time.Now()
			var timeout *frame.TimeoutError
			if _, err := w.next(d); !errors.As(err, &timeout) || time.Since(began) != time.Hour+inPayload {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	}
}

// A sealed header of a long payload, and no more, takes a few KiB.
func TestSealedMemoryIsGrantedAsBytesArrive(t *testing.T) {
	long := rawFrame(1, strings.Repeat("x", recordMost))
	wire := new(masked).seal(long[:recordSize+200_000])
	for _, arrived := range []int{0, 5, 10_000, 200_000} {
		r := millrace.NewReader(strings.NewReader(wire[:5+arrived]))
		buf := &sparing{Buffer: new(arena.Heap), t: t, r: r}
		_, _, err := frame.NewDecoder(r, new(masked), frame.MaxPayload(recordMost)).NextInto(buf)
		if err != io.ErrUnexpectedEOF || buf.most > 4<<10+2*arrived {
			t.Errorf("%v with %d bytes granted for %d that came", err, buf.most, arrived)
		}
		r.Release()
	}
}
